import { isSetupDue } from "../../repos/look-at-workspace.ts"
import { noteSetUp } from "../../repos/notes.ts"
import type { BootContext } from "../context.ts"
import { mainDirectory } from "../main-directory.ts"
import type { Step } from "../step.ts"
import { HOOK_END_MS, runHook } from "./run-hook.ts"

/**
 * Time limit. The hook installs what the repo needs, from the network and with compilers; it runs once, not at each
 * boot.
 */
export const SETUP_HOOK_DEADLINE_MS = 30 * 60_000

/**
 * Runs the setup hook. Processes that it leaves running are ended in every mode, not only in a build, whose files are
 * frozen next: a boot from a prebuild would not have them either.
 */
export const setupHook = (needs: readonly string[]): Step<BootContext> => ({
  name: "setup-hook",
  needs,
  required: true,
  timeoutMs: SETUP_HOOK_DEADLINE_MS + HOOK_END_MS,
  run: (context, signal, tell) =>
    runHook(
      { name: "setup", deadlineMs: SETUP_HOOK_DEADLINE_MS, keepBackground: false },
      ...([context, signal, tell] as const),
    ),
})

/** Runs the setup hook of a first repo that was cloned into a workspace in use, until it has succeeded once. */
export const setupHookIfDue = (needs: readonly string[]): Step<BootContext> => {
  const step = setupHook(needs)
  return {
    ...step,
    run: async (context, signal, tell) => {
      const repo = mainDirectory(context)
      if (!isSetupDue(repo)) return { skipped: "the workspace was set up before" }
      const report = await step.run(context, signal, tell)
      await noteSetUp(repo, { ...context, repo, hasLfs: false, signal })
      return report
    },
  }
}
