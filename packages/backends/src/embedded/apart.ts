import { mkdirSync } from "node:fs"
import { mkdir } from "node:fs/promises"
import { join } from "node:path"
import type { FstabEntry } from "@berth/host/mounts/fstab"
import { run } from "@berth/host/run"
import type { Bind } from "./system/prepared.ts"

/** The directory in the runtime's mount namespace where overlays are mounted, to be bound from there. */
const PLACES = "/run/berth/apart"

const placeOf = (index: number) => join(PLACES, `${index}`)

/** The deadline of a trial mount. An overlay takes a millisecond; a host that swaps takes seconds. */
const TRIAL_DEADLINE_MS = 10_000

/**
 * Puts an overlay of a sandbox's own over directories that it shares with the host and with other sandboxes. Watches
 * and locks belong to inodes, and an overlay has inodes of its own: so a sandbox neither learns when others open a
 * file, nor holds a lock that others wait for. The files' pages in memory stay shared.
 */
export interface Apart {
  /** The line that mounts an overlay over a directory; undefined where this host mounts none. */
  entry(source: string, target: string): Promise<FstabEntry | undefined>
  /** Replaces binds by binds from overlays, with the lines that mount those overlays. */
  binds(binds: readonly Bind[]): Promise<ApartBinds>
  /** Directories over which this host mounts no overlay: sandboxes share their inodes. */
  readonly shared: ReadonlySet<string>
}

export interface ApartBinds {
  readonly binds: readonly Bind[]
  readonly mounts: readonly FstabEntry[]
}

export const openApart = async (directory: string): Promise<Apart> => {
  // An overlay without a writable layer needs two lower ones: this empty directory is the second. Beside the system's
  // own it can be on one file system with them.
  const empty = join(directory, "empty")
  await mkdir(empty, { recursive: true, mode: 0o755 })
  const trials = openTrials(empty)
  let places = 0
  const placesFor = (count: number): readonly string[] => {
    for (; places < count; places++) mkdirSync(placeOf(places), { recursive: true, mode: 0o755 })
    return Array.from({ length: count }, (_, index) => placeOf(index))
  }
  const overlay = (source: string, target: string): FstabEntry => ({
    source: "overlay",
    target,
    type: "overlay",
    options: options(source, empty),
  })

  return {
    shared: trials.failed,
    entry: async (source, target) =>
      (await trials.works(source)) ? overlay(source, target) : undefined,
    async binds(binds) {
      const places = placesFor(binds.length)
      const works = await Promise.all(binds.map(({ source }) => trials.works(source)))
      const moved = binds.map((bind, index) => {
        const place = places[index]
        if (!works[index] || place === undefined) return { bind, mounts: [] }
        return { bind: { ...bind, source: place }, mounts: [overlay(bind.source, place)] }
      })
      return {
        binds: moved.map(({ bind }) => bind),
        mounts: moved.flatMap(({ mounts }) => mounts),
      }
    },
  }
}

/**
 * The options of an overlay. `xino` makes inode numbers that tell the layers apart, so that all files of an overlay are
 * on one device.
 */
const options = (source: string, empty: string) => [
  "ro",
  "xino=auto",
  `lowerdir=${source}:${empty}`,
]

/** Characters that separate parts of an overlay's options. */
const SEPARATORS = /[,:\\"]/

/**
 * Tries whether an overlay can be mounted over a directory: not over a file, over two overlays already, nor over some
 * file systems. A success holds for as long as the server runs.
 */
const openTrials = (empty: string) => {
  const tried = new Map<string, Promise<boolean>>()
  const failed = new Set<string>()
  const attempt = async (source: string): Promise<boolean> => {
    if (SEPARATORS.test(source) || SEPARATORS.test(empty)) return false
    const mount = ["mount", "-t", "overlay", "-o", options(source, empty).join(","), "overlay"]
    const command = ["unshare", "--mount", "--propagation=slave", ...mount, PLACES] as const
    const { status } = await run([...command], {
      signal: new AbortController().signal,
      deadlineMs: TRIAL_DEADLINE_MS,
    })
    return status === 0
  }
  const settle = async (source: string): Promise<boolean> => {
    mkdirSync(PLACES, { recursive: true, mode: 0o755 })
    const works = await attempt(source).catch(() => false)
    if (works) failed.delete(source)
    else {
      failed.add(source)
      tried.delete(source)
    }
    return works
  }
  return {
    failed,
    works(source: string): Promise<boolean> {
      const known = tried.get(source)
      if (known !== undefined) return known
      const trial = settle(source)
      tried.set(source, trial)
      return trial
    },
  }
}
