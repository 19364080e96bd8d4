import type { SandboxId } from "@berth/protocol/ids"
import { killMakers } from "./makers.ts"
import type { Parts } from "./parts.ts"
import { isAlive, type ProcessIdentity, signalProcess } from "./process.ts"
import type { SandboxState } from "./state-file.ts"

/** The pause between two looks at conmon, which is about to end. */
const MONITOR_POLL_MS = 2

/** Removes a sandbox by force, from any state. Its files go last: until then it is found again. */
export const removeSandbox = async (
  parts: Parts,
  state: SandboxState,
  signal: AbortSignal,
): Promise<void> => {
  const { sandbox } = state.spec.identity
  await mark(parts, state)
  await removeTraces(parts, sandbox, state, signal)
  await parts.at("remove.files")
  await parts.states.remove(sandbox, signal)
  if (state.idBase !== undefined) parts.idRanges.free(state.idBase)
}

/**
 * Marks a sandbox as being removed, if the disk has room. Without the mark, a removal that a crash interrupts leaves a
 * sandbox that has ended. So a full disk, which the sandbox itself may have filled, does not keep it from being
 * removed.
 */
const mark = async ({ states }: Parts, state: SandboxState): Promise<void> => {
  try {
    await states.write({ ...state, progress: "removing" })
  } catch (thrown) {
    const { code } = thrown as NodeJS.ErrnoException
    if (code !== "ENOSPC" && code !== "EDQUOT") throw thrown
  }
}

/** Removes everything that a sandbox's id leads to, except its own directory; with or without a state. */
export const removeTraces = async (
  parts: Parts,
  sandbox: SandboxId,
  state: SandboxState | undefined,
  signal: AbortSignal,
): Promise<void> => {
  const { cgroups, runtime } = parts
  const cgroup = cgroups.open(sandbox)
  await parts.at("remove.kill")
  // Without a note of conmon, the creation was interrupted, and may still go on.
  const monitors = state?.monitor ? [state.monitor] : []
  if (state?.monitor === undefined) await killMakers(sandbox, parts.states.runtimeRoot, signal)
  if (state?.init) signalProcess(state.init, "SIGKILL")
  if (cgroups.held.kill.held && (await cgroup.exists())) await cgroup.kill(signal)
  await parts.at("remove.runtime")
  await Promise.all([
    runtime.forget(sandbox, cgroup.path, signal),
    detach(parts, sandbox, state, signal),
    ...monitors.map((monitor) => ended(monitor, signal)),
  ])
  await parts.at("remove.cgroup")
  await cgroup.remove(signal)
}

const detach = async (
  { network }: Parts,
  sandbox: SandboxId,
  state: SandboxState | undefined,
  signal: AbortSignal,
): Promise<void> => {
  if (state?.spec.config.network.kind !== "none") await network.detach(sandbox, signal)
}

/** Waits for conmon's end: it writes into the sandbox's directory until then. */
const ended = async (monitor: ProcessIdentity, signal: AbortSignal): Promise<void> => {
  while (isAlive(monitor)) {
    signal.throwIfAborted()
    await new Promise((resolve) => setTimeout(resolve, MONITOR_POLL_MS))
  }
}
