/**
 * The report of what lives in a sandbox, for its server alone.
 *
 * - `GET /activity` → `Activity`, as it is now.
 * - `GET /activity?after=VERSION&wait=MS`: the same, at once when the version is another one, else at the first
 *   change, or when that time is over.
 *
 * Commands that are bound to a connection are not in it: the holder of the connection knows of them.
 */
import { z } from "zod"
import { MAX_ACTIVE_PROMPTS, MAX_PROCESSES } from "./activity-limits.ts"
import { MAX_COMMANDS } from "./command-limits.ts"
import { CommandId } from "./commands.ts"
import { PromptId } from "./ids.ts"
import { listOf } from "./list.ts"
import { MAX_TERMINAL_VIEWERS, MAX_TERMINALS } from "./terminal-limits.ts"
import { TerminalId } from "./terminals.ts"

/** Everything that lives in a sandbox and would be lost with it. */
export const Activity = z.object({
  /** The version changes with every change. It is comparable only within one run of the supervisor. */
  version: z.int().min(0),
  /** Accepted or running prompts. */
  prompts: listOf(PromptId, { max: MAX_ACTIVE_PROMPTS }),
  /** Commands that were started in the background and still run. */
  commands: listOf(CommandId, { max: MAX_COMMANDS }),
  /** Open terminals, watched or not. */
  terminals: listOf(
    z.object({ id: TerminalId, viewers: z.int().min(0).max(MAX_TERMINAL_VIEWERS) }),
    { max: MAX_TERMINALS },
  ),
  /**
   * Processes of the sandbox's user that outlive the prompt or the terminal that started them. Processes that the boot
   * and sidecars left running do not count: the next boot starts them again.
   */
  leftProcesses: z.int().min(0).max(MAX_PROCESSES),
})
export type Activity = z.infer<typeof Activity>
