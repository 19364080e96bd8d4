import { stat } from "node:fs/promises"
import type { BootContext } from "../context.ts"
import { mainDirectory } from "../main-directory.ts"
import type { Step } from "../step.ts"

/** Time limit. An agent reads the repo's configuration here, which may be large and on a cold disk. */
export const AGENT_ATTACH_LIMIT_MS = 60_000

/** Names the repo to the agent. The agent looks at it from here on, and sees everything that the hooks made. */
export const agentAttach = (needs: readonly string[]): Step<BootContext> => ({
  name: "agent-attach",
  needs,
  required: true,
  timeoutMs: AGENT_ATTACH_LIMIT_MS,
  run: async (context, signal, tell) => {
    const { agent, places } = context
    const wanted = mainDirectory(context)
    const isThere = (await stat(wanted).catch(() => undefined))?.isDirectory() ?? false
    // A snapshot may lack the directory, and its files must be reachable all the same.
    if (!isThere) tell.warn(`${wanted} is not there: ${agent.name} works in ${places.workspace}`)
    return await agent.attach(isThere ? wanted : places.workspace, signal)
  },
})
