import type { BootContext } from "../context.ts"
import { mainDirectory } from "../main-directory.ts"
import type { Step } from "../step.ts"

/** An agent reads a repo's configuration here, and that of a large one from a cold disk. */
export const AGENT_ATTACH_LIMIT_MS = 60_000

/** Names the repo to the agent: from here on it looks at it, and sees all that the hooks made. */
export const agentAttach = (needs: readonly string[]): Step<BootContext> => ({
  name: "agent-attach",
  needs,
  required: true,
  timeoutMs: AGENT_ATTACH_LIMIT_MS,
  run: (context, signal) => context.agent.attach(mainDirectory(context), signal),
})
