import type { SandboxExit } from "@berth/protocol/sandbox"
import type { ObservedSandbox } from "../backend.ts"
import type { Cgroup } from "./cgroups/cgroups.ts"
import type { ExitRecord, Exits } from "./exits.ts"
import { isAlive } from "./process.ts"
import type { SandboxState } from "./state.ts"

/** conmon writes the exit file within milliseconds of the end; a host under load takes longer. */
const EXIT_FILE_DEADLINE_MS = 5_000

const SIGNAL_BASE = 128
const LAST_SIGNAL = 64
const KILLED = SIGNAL_BASE + 9

/** What a sandbox is now, from what the kernel and conmon say; the state file alone is never believed. */
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

/** How the sandbox ended; undefined while its first process lives. */
export const findExit = async (
  { spec, init, monitor }: SandboxState,
  cgroup: Cgroup,
  exits: Exits,
  signal: AbortSignal,
): Promise<SandboxExit | undefined> => {
  const { sandbox } = spec.identity
  const record = await exits.read(sandbox)
  if (record !== undefined) return describeExit(record, cgroup)
  if (init !== undefined && (await isAlive(init))) return undefined
  if (monitor !== undefined && (await isAlive(monitor))) {
    const soon = AbortSignal.any([signal, AbortSignal.timeout(EXIT_FILE_DEADLINE_MS)])
    return describeExit(await exits.wait(sandbox, soon), cgroup)
  }
  // Without conmon nobody saw the end: it was killed as well, or the machine was started anew. It may also
  // have written the file and ended since the first look.
  const late = await exits.read(sandbox)
  if (late !== undefined) return describeExit(late, cgroup)
  return { code: null, reason: "unknown", at: new Date().toISOString() }
}

/** tini and conmon tell a signal as 128 and its number. */
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
