import type { Parts } from "./parts.ts"
import type { SandboxState } from "./state-file.ts"

/** Starts the first process of a sandbox that is created. */
export const startSandbox = async (
  { runtime, states, at }: Pick<Parts, "runtime" | "states" | "at">,
  state: SandboxState,
  signal: AbortSignal,
): Promise<void> => {
  await at("starting")
  await runtime.start(state.spec.identity.sandbox, signal)
  await at("started")
  await states.write({ ...state, progress: "started" })
}
