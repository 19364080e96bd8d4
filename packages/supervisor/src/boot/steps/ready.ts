import { BerthError } from "@berth/protocol/errors"
import type { BootContext } from "../context.ts"
import type { Step } from "../step.ts"

/** Time limit. The step only checks the agent. */
const READY_LIMIT_MS = 5_000

/** The last step: checks that the agent, started earlier, still runs, so that it can take the first prompt. */
export const ready = (needs: readonly string[]): Step<BootContext> => ({
  name: "ready",
  needs,
  required: true,
  timeoutMs: READY_LIMIT_MS,
  run: async ({ agent }) => {
    const trouble = agent.trouble()
    if (trouble !== undefined)
      throw new BerthError("agent.unavailable", `${agent.name} cannot take prompts: ${trouble}`, {
        details: { agent: agent.name, trouble },
      })
    return { did: `${agent.name} takes prompts` }
  },
})
