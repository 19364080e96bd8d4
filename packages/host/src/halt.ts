import { readdirSync, readFileSync } from "node:fs"
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { setTimeout as pause, setImmediate as soon } from "node:timers/promises"
import { parseMembership } from "./cgroups/membership.ts"
import { type CgroupMounts, parseCgroupMounts } from "./cgroups/mounts.ts"

/*
 * Halts processes through their cgroups: nothing is written to a disk, and no engine is asked. So it works where both
 * are stuck.
 */

/** The processes of one cgroup, which can be halted together. */
export interface Group {
  /** The part of the cgroup's name that it was found by. */
  readonly name: string
  readonly version: 1 | 2
  readonly directory: string
}

/** The deadline of halting. Freezing takes milliseconds; a process that waits for a disk takes as long as the disk. */
const HALT_DEADLINE_MS = 2_000
const POLL_MS = 5
/**
 * A cgroup that has not frozen after this long is thawed for a moment. Under v1, a process that replaces itself
 * meanwhile waits for threads that were frozen before they could end: neither moves until both are thawed.
 */
const DEADLOCK_MS = 250

/** The processes that are read before others have their turn: about 5 ms. */
const READ_AT_ONCE = 256

/**
 * The groups whose cgroup has one of these names. Each process is read synchronously: the kernel answers from memory, in
 * less time than a thread of the pool needs to be asked.
 */
export const findGroups = async (names: ReadonlySet<string>): Promise<Group[]> => {
  if (names.size === 0) return []
  const mounts = parseCgroupMounts(readFileSync("/proc/self/mounts", "utf8"))
  const found = new Map<string, Group>()
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name))
  for (const [place, pid] of pids.entries()) {
    if (place % READ_AT_ONCE === READ_AT_ONCE - 1) await soon()
    const group = groupOf(cgroupOf(pid), names, mounts)
    if (group !== undefined) found.set(group.directory, group)
  }
  return [...found.values()]
}

/** The text of a process's cgroups; empty: it has ended. */
const cgroupOf = (pid: string): string => {
  try {
    return readFileSync(`/proc/${pid}/cgroup`, "utf8")
  } catch {
    return ""
  }
}

/** Matches ids of sandboxes, and of engines. */
const NAME = /sb-[a-z0-9]{20}|[0-9a-f]{64}/g

const groupOf = (
  text: string,
  names: ReadonlySet<string>,
  { v1, v2 }: CgroupMounts,
): Group | undefined => {
  const membership = parseMembership(text)
  const v1Mount = v1.get("freezer")
  const [version, mount, path] =
    v1Mount === undefined
      ? ([2, v2, membership.get("")] as const)
      : ([1, v1Mount, membership.get("freezer")] as const)
  if (mount === undefined || path === undefined) return undefined
  const name = (path.match(NAME) ?? []).find((each) => names.has(each))
  return name === undefined ? undefined : { name, version, directory: join(mount, path) }
}

/**
 * Halts groups. Resolves when they stand still, or after a short deadline: a process that waits for a full disk writes
 * nothing.
 */
export const halt = async (groups: readonly Group[]): Promise<void> => {
  const endsAt = performance.now() + HALT_DEADLINE_MS
  let moving = groups
  let askedAt = performance.now()
  while (moving.length > 0 && performance.now() < endsAt) {
    if (performance.now() - askedAt > DEADLOCK_MS) {
      await goOn(moving.filter(({ version }) => version === 1))
      askedAt = performance.now()
    }
    // The request is repeated: under v1 that stops a late process.
    await Promise.all(moving.map((group) => ask(group, true)))
    const still = await Promise.all(moving.map(isHalted))
    moving = moving.filter((_, index) => !still[index])
    if (moving.length > 0) await pause(POLL_MS)
  }
}

export const goOn = async (groups: readonly Group[]): Promise<void> => {
  await Promise.all(groups.map((group) => ask(group, false)))
}

/** Whether all of a group's processes stand still. Also true of a group that has ended. */
export const isHalted = async ({ version, directory }: Group): Promise<boolean> => {
  const text = await readOrEmpty(join(directory, version === 1 ? "freezer.state" : "cgroup.events"))
  return text === "" || (version === 1 ? text.trim() === "FROZEN" : /^frozen 1$/m.test(text))
}

/** Kills all processes of groups without letting any of them take another step. */
export const kill = async (groups: readonly Group[]): Promise<void> => {
  const endsAt = performance.now() + HALT_DEADLINE_MS
  let living = groups
  while (living.length > 0 && performance.now() < endsAt) {
    await halt(living)
    const pids = await Promise.all(living.map(pidsOf))
    for (const pid of pids.flat()) signal(pid)
    await goOn(living)
    await pause(POLL_MS)
    const left = await Promise.all(living.map(pidsOf))
    living = living.filter((_, index) => (left[index] ?? []).length > 0)
  }
}

/**
 * Kills all processes of sandboxes except their first one and their supervisor, which go on. None of the others takes
 * another step: all stand still when they are listed, and so none is missed.
 */
export const clear = async (groups: readonly Group[]): Promise<void> => {
  const endsAt = performance.now() + HALT_DEADLINE_MS
  do {
    await halt(groups)
    const pids = (await Promise.all(groups.map(pidsOf))).flat()
    const spared = await leadersOf(pids)
    const others = pids.filter((each) => !spared.has(each))
    for (const pid of others) signal(pid)
    await goOn(groups)
    if (others.length === 0) return
    // A process that waited for the disk did not stand still, and may have started another.
    await pause(POLL_MS)
  } while (performance.now() < endsAt)
}

/** The first process of a sandbox, and that one's first child, which is the supervisor. */
const leadersOf = async (pids: readonly number[]): Promise<ReadonlySet<number>> => {
  const processes = await Promise.all(pids.map(readProcess))
  const first = processes.find(({ inside }) => inside === 1)
  const children = processes.filter(({ parent }) => parent === first?.pid)
  const [supervisor] = children.toSorted((one, other) => one.inside - other.inside)
  return new Set([first, supervisor].flatMap((each) => each?.pid ?? []))
}

/**
 * Reads a process. `inside` is its id in the sandbox's pid namespace, whatever namespaces a process makes below that.
 */
const readProcess = async (pid: number) => {
  const status = await readOrEmpty(`/proc/${pid}/status`)
  const parent = Number(/^PPid:\s+(\d+)$/m.exec(status)?.[1])
  return { pid, parent, inside: Number(/^NSpid:\s+\d+\s+(\d+)/m.exec(status)?.[1]) }
}

const ask = async ({ version, directory }: Group, isToHalt: boolean): Promise<void> => {
  const [file, word] =
    version === 1
      ? (["freezer.state", isToHalt ? "FROZEN" : "THAWED"] as const)
      : (["cgroup.freeze", isToHalt ? "1" : "0"] as const)
  try {
    await writeFile(join(directory, file), word)
  } catch (thrown) {
    // The process has ended since.
    if (!isGone(thrown)) throw thrown
  }
}

export const pidsOf = async ({ directory }: Group): Promise<number[]> =>
  (await readOrEmpty(join(directory, "cgroup.procs"))).split("\n").filter(Boolean).map(Number)

const signal = (pid: number): void => {
  try {
    process.kill(pid, "SIGKILL")
  } catch {
    // The process has ended since it was listed.
  }
}

const readOrEmpty = (path: string): Promise<string> => readFile(path, "utf8").catch(() => "")

const isGone = (thrown: unknown): boolean =>
  ["ENOENT", "ENODEV"].includes(String((thrown as NodeJS.ErrnoException).code))
