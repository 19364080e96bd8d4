import type { BootContext } from "../context.ts"
import type { Step } from "../step.ts"

/**
 * Time limit. An agent takes two seconds of CPU to start; on a machine that boots twenty at once, it needs a minute.
 */
export const AGENT_START_LIMIT_MS = 120_000

/** Starts the agent, outside of every repo, and waits until it answers. */
export const agentStart = (needs: readonly string[]): Step<BootContext> => ({
  name: "agent-start",
  needs,
  required: true,
  timeoutMs: AGENT_START_LIMIT_MS,
  run: async ({ agent }, signal, tell) => {
    try {
      return await agent.start(signal, (progress) => tell.progress(progress))
    } catch (thrown) {
      tell.output(Buffer.from(agent.lastOutput()))
      throw thrown
    }
  },
})
