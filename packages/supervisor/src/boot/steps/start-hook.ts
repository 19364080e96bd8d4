import type { BootContext } from "../context.ts"
import type { Step } from "../step.ts"
import { HOOK_END_MS, runHook } from "./run-hook.ts"

/** Time limit. A person waits for the hook at every boot: longer work belongs into the setup hook. */
export const START_HOOK_DEADLINE_MS = 5 * 60_000

/** Runs the start hook. Processes that it leaves running live until the sandbox ends. */
export const startHook = (needs: readonly string[]): Step<BootContext> => ({
  name: "start-hook",
  needs,
  required: true,
  timeoutMs: START_HOOK_DEADLINE_MS + HOOK_END_MS,
  run: (context, signal, tell) =>
    runHook(
      { name: "start", deadlineMs: START_HOOK_DEADLINE_MS, keepBackground: true },
      ...([context, signal, tell] as const),
    ),
})
