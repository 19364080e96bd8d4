import { timeoutSignal } from "@berth/host/timeout-signal"
import { findExit, untilEnded } from "./observe.ts"
import type { Parts } from "./parts.ts"
import { signalProcess } from "./process.ts"
import type { SandboxState } from "./state-file.ts"

/** Asks the first process to end, and kills the sandbox when the grace is over. Does nothing for an ended one. */
export const stopSandbox = async (
  { cgroups, exits, reclaims }: Pick<Parts, "cgroups" | "exits" | "reclaims">,
  state: SandboxState,
  graceMs: number,
  signal: AbortSignal,
): Promise<void> => {
  const { sandbox } = state.spec.identity
  const cgroup = cgroups.open(sandbox)
  if ((await findExit(state, cgroup, exits, signal)) !== undefined) return
  if (state.init) signalProcess(state.init, "SIGTERM")
  reclaims.end(sandbox)
  if (await cgroup.isFrozen()) await cgroup.thaw(signal)
  const grace = AbortSignal.any([signal, timeoutSignal(graceMs)])
  const isInTime = await untilEnded(state, exits, grace).then(
    () => true,
    () => false,
  )
  signal.throwIfAborted()
  if (isInTime) return
  if (state.init) signalProcess(state.init, "SIGKILL")
  if (cgroups.held.kill.held) await cgroup.kill(signal)
  await untilEnded(state, exits, signal)
}
