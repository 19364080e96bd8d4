import { join } from "node:path"
import type { IdMap } from "@berth/host/mounts/mapped"
import { type MountCommand, tryMapped, tryMappedOverlay } from "@berth/host/mounts/trial"
import { ID_COUNT, rangeAt } from "./range.ts"

/** Mounts with mapped ids: the owners of a directory's files are mapped to a sandbox's range of ids. */
export interface IdMapping {
  /** Whether a directory of the host can be mounted with mapped ids, with all that is mounted below it. */
  works(directory: string): Promise<boolean>
  /** Directories that cannot be mounted with mapped ids. A sandbox that has one gets the installation's range. */
  readonly unmapped: ReadonlySet<string>
}

/** The reason why this host cannot map ids, in words for the user. */
export interface NoIdMapping {
  readonly why: string
}

export interface MappingOptions {
  /** A directory for trials, on the file system that holds the sandboxes' files. */
  readonly directory: string
  /** The mount command; undefined where the host has no perl. */
  readonly mount: MountCommand | undefined
  /** The range that the installation's files have on disk. */
  readonly onDisk: number
}

/** Tries whether sandboxes can have ranges of their own, with files and overlays as they will have them. */
export const openIdMapping = async (
  { mount, directory, onDisk }: MappingOptions,
  signal: AbortSignal,
): Promise<IdMapping | NoIdMapping> => {
  if (mount === undefined) return { why: "perl is not installed" }
  const map = { onDisk, own: anotherThan(onDisk), count: ID_COUNT }
  const failure = await tryMappedOverlay(mount, join(directory, "trial"), map, signal)
  if (failure !== undefined) {
    return { why: `the kernel does not map the ids of ${directory} (${failure})` }
  }
  return openTrials(mount, map)
}

/** A range that stands for a sandbox's own in a trial. */
const anotherThan = (onDisk: number): number => (rangeAt(0) === onDisk ? rangeAt(1) : rangeAt(0))

/** Tries each directory once: a success holds for as long as the server runs. */
const openTrials = (mount: MountCommand, map: IdMap): IdMapping => {
  const tried = new Map<string, Promise<boolean>>()
  const unmapped = new Set<string>()
  const attempt = async (directory: string): Promise<boolean> => {
    const { signal } = new AbortController()
    // A trial that could not be made says nothing about the directory: its caller gets the error, and the next one
    // tries again.
    const failure = await tryMapped(mount, directory, map, signal).catch((thrown: unknown) => {
      tried.delete(directory)
      throw thrown
    })
    if (failure === undefined) unmapped.delete(directory)
    else {
      unmapped.add(directory)
      tried.delete(directory)
    }
    return failure === undefined
  }
  return {
    unmapped,
    works(directory) {
      const trial = tried.get(directory) ?? attempt(directory)
      tried.set(directory, trial)
      return trial
    },
  }
}

export const hasMapping = (mapping: IdMapping | NoIdMapping): mapping is IdMapping =>
  "works" in mapping
