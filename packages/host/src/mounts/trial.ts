import { lstatSync } from "node:fs"
import { mkdir, rm } from "node:fs/promises"
import { join } from "node:path"
import { run } from "../run.ts"
import { type FstabEntry, fstab } from "./fstab.ts"
import { type IdMap, mappedEntry } from "./mapped.ts"
import { writtenBy } from "./written-by.ts"

/** A command that mounts the entries of a table: see `mountCommand`. */
export type MountCommand = readonly [string, ...string[]]

/** The deadline of a trial. It takes some milliseconds; a host that swaps takes seconds. */
const TRIAL_DEADLINE_MS = 10_000

/**
 * Tries whether an overlay can lie on directories with mapped ids, and says why it cannot. Kernels before 5.19 mount
 * none, and a kernel that can make no work directory mounts it read-only. So a file in it is given to an id of the own
 * range: on disk it must have the other. The directory is made and removed again.
 */
export const tryMappedOverlay = async (
  mount: MountCommand,
  directory: string,
  map: IdMap,
  signal: AbortSignal,
): Promise<string | undefined> => {
  const within = (name: string) => join(directory, name)
  try {
    await rm(directory, { recursive: true, force: true })
    for (const name of ["lower", "upper", "work", "place"]) {
      await mkdir(within(name), { recursive: true, mode: 0o700 })
    }
    const layers = ["lowerdir=lower", "upperdir=upper", "workdir=work"]
    // Without `volatile`, the unmount would wait until all that the host has written to the file system is on the disk.
    const options = ["redirect_dir=on", "volatile", ...layers, writtenBy(map.own)]
    const overlay = { source: "overlay", target: within("place"), type: "overlay", options }
    const entries = [mappedEntry(directory, map), overlay]
    const chown = `: > place/file && chown ${map.own} place/file`
    const failure = await mountAside(mount, { entries, base: directory, command: chown }, signal)
    if (failure !== undefined) return failure
    const { uid } = lstatSync(within("upper/file"))
    return uid === map.onDisk ? undefined : `an owner was written as ${uid}`
  } catch (thrown) {
    signal.throwIfAborted()
    return (thrown as Error).message
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/**
 * Tries whether the ids of a directory, and of all that is mounted below it, can be mapped, and says why they cannot.
 */
export const tryMapped = (
  mount: MountCommand,
  directory: string,
  map: IdMap,
  signal: AbortSignal,
): Promise<string | undefined> =>
  mountAside(mount, { entries: [mappedEntry(directory, map)], base: "/", command: ":" }, signal)

interface Aside {
  readonly entries: readonly FstabEntry[]
  readonly base: string
  /** A shell command that runs in the base directory. */
  readonly command: string
}

/** Mounts entries in a namespace that ends with the call, and runs a command there. Returns what failed. */
const mountAside = async (
  mount: MountCommand,
  { entries, base, command }: Aside,
  signal: AbortSignal,
): Promise<string | undefined> => {
  // `cat` makes a pipe, which can be opened by its path: the server gives a program a socket for its input.
  const script = `base=$1; shift; cat | "$@" /dev/stdin "$base" && cd "$base" && ${command}`
  const shell = ["/bin/sh", "-c", script, "trial", base, ...mount]
  const { status, stderr } = await run(["unshare", "--mount", "--propagation=slave", ...shell], {
    signal,
    input: fstab(entries),
    deadlineMs: TRIAL_DEADLINE_MS,
  })
  return status === 0 ? undefined : stderr.trim() || `status ${status}`
}
