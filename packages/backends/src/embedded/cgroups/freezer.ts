import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { cgroupError } from "./file-error.ts"
import { fieldOf, readIfThere, withNested, writeValue } from "./files.ts"
import { poll } from "./poll.ts"

/**
 * The deadline of freezing. It takes milliseconds, but a process that waits for a dead disk can hold it up for good.
 */
const FREEZE_DEADLINE_MS = 4_000
/**
 * A cgroup that has not frozen after this long is thawed for a moment. Under v1, a process that replaces itself
 * meanwhile waits for threads that were frozen before they could end: neither moves until both are thawed. Longer than
 * freezing takes on a busy machine.
 */
const DEADLOCK_MS = 250

export interface Freezer {
  readonly version: 1 | 2
  readonly directory: string
}

export const freeze = async (freezer: Freezer, signal: AbortSignal): Promise<void> => {
  let frozen = false
  try {
    frozen = await freezeWithin(freezer, { signal, withinMs: FREEZE_DEADLINE_MS })
  } finally {
    if (!frozen) await requestThaw(freezer)
  }
  if (frozen) return
  const { directory } = freezer
  throw new BerthError(
    "deadline.exceeded",
    `the processes in ${directory} did not freeze within ${FREEZE_DEADLINE_MS} ms`,
    { details: { path: directory, deadlineMs: FREEZE_DEADLINE_MS } },
  )
}

/** Freezes as many processes as possible. Returns whether all stand still. */
export const freezeWithin = (
  freezer: Freezer,
  bounds: { signal: AbortSignal; withinMs: number },
): Promise<boolean> => {
  let triedSince = performance.now()
  return poll(async () => {
    if (freezer.version === 1 && performance.now() - triedSince > DEADLOCK_MS) {
      await requestThaw(freezer)
      triedSince = performance.now()
      return false
    }
    // The request is repeated at every look: under v1 that stops a late process.
    await request(freezer, "frozen")
    return isFrozen(freezer)
  }, bounds)
}

export const thaw = async (freezer: Freezer, signal: AbortSignal): Promise<void> => {
  await requestThaw(freezer)
  const thawed = await poll(async () => !(await isFrozen(freezer)), {
    signal,
    withinMs: FREEZE_DEADLINE_MS,
  })
  if (thawed) return
  throw new BerthError(
    "deadline.exceeded",
    `the processes in ${freezer.directory} did not run again within ${FREEZE_DEADLINE_MS} ms`,
    { details: { path: freezer.directory, deadlineMs: FREEZE_DEADLINE_MS } },
  )
}

/**
 * Thaws a cgroup and those nested in it, so that none is left frozen on its own. A cgroup that is gone is not frozen.
 */
export const requestThaw = async ({ version, directory }: Freezer): Promise<void> => {
  for (const nested of await withNested(directory)) {
    try {
      await request({ version, directory: nested }, "thawed")
    } catch (error) {
      if (!(error instanceof BerthError) || error.code !== "backend.unknown_sandbox") throw error
    }
  }
}

export const isFrozen = async ({ version, directory }: Freezer): Promise<boolean> => {
  if (version === 1) {
    return (await readIfThere(join(directory, "freezer.state")))?.trim() === "FROZEN"
  }
  return fieldOf((await readIfThere(join(directory, "cgroup.events"))) ?? "", "frozen") === 1
}

const request = async ({ version, directory }: Freezer, state: "frozen" | "thawed") => {
  const [file, values] =
    version === 1
      ? (["freezer.state", { frozen: "FROZEN", thawed: "THAWED" }] as const)
      : (["cgroup.freeze", { frozen: "1", thawed: "0" }] as const)
  const path = join(directory, file)
  try {
    await writeValue(path, values[state])
  } catch (error) {
    throw cgroupError(error, {
      action: state === "frozen" ? "freeze the processes" : "thaw the processes",
      path,
    })
  }
}
