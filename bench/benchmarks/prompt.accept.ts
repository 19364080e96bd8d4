import { benchmark } from "../benchmark.ts"
import { nowMs, openSession, runPrompt } from "../fixtures/sessions.ts"

/** What a person waits for before the agent begins. */
export default benchmark({
  what: "from an accepted prompt to the agent that has it, in a sandbox that is ready",
  unit: "ms",
  bound: { of: "ours", atMost: 15 },
  statistic: "median",
  runs: 41,
  prepare: openSession,
  ours: async ({ session }, signal) => {
    let acceptedMs = 0
    let hadMs = 0
    const timed = {
      ...session,
      prompt: async (...given: Parameters<typeof session.prompt>) => {
        const prompt = await session.prompt(...given)
        acceptedMs = nowMs()
        return prompt
      },
    }
    // The agent is a shell: what it is given is the time at which it has it.
    await runPrompt(timed, "date +%s%N", signal, (text) => {
      hadMs = Number(text) / 1e6
    })
    return Math.max(0, hadMs - acceptedMs)
  },
})
