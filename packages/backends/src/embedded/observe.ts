import type { SandboxId } from "@berth/protocol/ids"
import type { SandboxExit } from "@berth/protocol/sandbox"
import type { ObservedSandbox } from "../backend.ts"
import type { Cgroup } from "./cgroups/cgroups.ts"
import type { ExitRecord, Exits } from "./exits.ts"
import { isAlive, type ProcessIdentity } from "./process.ts"
import type { SandboxState } from "./state-file.ts"

/**
 * The interval of looks at whether a process still lives: conmon, which starts the sandbox's first process and writes
 * its exit status to a file, or that first process itself. After a restart of the server, neither is a child of its.
 */
const MONITOR_POLL_MS = 10

/** Exit statuses above this one stand for a signal: 128 and its number. */
const SIGNAL_BASE = 128
const LAST_SIGNAL = 64
const KILLED = SIGNAL_BASE + 9

/**
 * Looks at a sandbox as it is now: the kernel knows its processes and its cgroup, conmon its exit. The state file alone
 * is never believed.
 */
export const observe = async (
  state: SandboxState,
  cgroup: Cgroup,
  exits: Exits,
  signal: AbortSignal,
): Promise<ObservedSandbox> => {
  const { spec, createdAt, unheldLimits } = state
  const seen = { identity: spec.identity, createdAt, unheldLimits }
  const exit = await findExit(state, cgroup, exits, signal)
  if (exit !== undefined) return { ...seen, state: "exited", exit }
  if (state.progress === "created") return { ...seen, state: "created" }
  return { ...seen, state: (await cgroup.isFrozen()) ? "paused" : "running" }
}

/** The sandbox's exit; undefined while its first process lives. */
export const findExit = async (
  { spec, init, monitor }: SandboxState,
  cgroup: Cgroup,
  exits: Exits,
  signal: AbortSignal,
): Promise<SandboxExit | undefined> => {
  const { sandbox } = spec.identity
  if (init !== undefined && isAlive(init)) return undefined
  const record = await exits.read(sandbox)
  if (record !== undefined) return describeExit(record, cgroup)
  const late = await lastRecord(sandbox, monitor, exits, signal)
  if (late !== undefined) return describeExit(late, cgroup)
  // Without conmon nobody saw the end: conmon was killed as well, or the machine was restarted.
  return { code: null, reason: "unknown", at: new Date().toISOString() }
}

/** Waits for the exit file of a first process that is gone: conmon writes it, unless conmon is gone too. */
const lastRecord = async (
  sandbox: SandboxId,
  monitor: ProcessIdentity | undefined,
  exits: Exits,
  signal: AbortSignal,
): Promise<ExitRecord | undefined> => {
  while (monitor !== undefined && isAlive(monitor)) {
    signal.throwIfAborted()
    const record = await exits.read(sandbox)
    if (record !== undefined) return record
    await new Promise((resolve) => setTimeout(resolve, MONITOR_POLL_MS))
  }
  // conmon may have written the file and ended since the last look.
  return exits.read(sandbox)
}

/**
 * Waits for the end of a sandbox whose first process was signalled. conmon notes it in a file. A conmon that was killed
 * notes nothing, so then the first process itself is watched. Rejects when the signal fires.
 */
export const untilEnded = async (
  { spec, init, monitor }: SandboxState,
  exits: Exits,
  signal: AbortSignal,
): Promise<void> => {
  const over = new AbortController()
  const either = AbortSignal.any([signal, over.signal])
  const isGone = (process: ProcessIdentity | undefined) =>
    process === undefined || !isAlive(process)
  const unseen = async () => {
    while (!isGone(init) || !isGone(monitor)) {
      await new Promise((resolve) => setTimeout(resolve, MONITOR_POLL_MS))
      either.throwIfAborted()
    }
  }
  try {
    await Promise.race([exits.wait(spec.identity.sandbox, either), unseen()])
  } finally {
    over.abort()
  }
}

/** Says in the protocol's words how a first process ended. tini and conmon report a signal as 128 and its number. */
export const describeExit = async (
  { code, at }: ExitRecord,
  cgroup: Cgroup,
): Promise<SandboxExit> => {
  const outOfMemory = code === KILLED && (await cgroup.oomKills()) > 0
  const signalled = code > SIGNAL_BASE && code <= SIGNAL_BASE + LAST_SIGNAL
  return {
    code,
    reason: outOfMemory ? "out-of-memory" : signalled ? "signalled" : "exited",
    at: at.toISOString(),
  }
}
