import { benchmark } from "../benchmark.ts"
import { openSession, runPrompt } from "../fixtures/sessions.ts"

/** The time that a person waits before the agent begins. */
export default benchmark({
  what: "from the moment that the server took a prompt to the agent that has it, in a sandbox that is ready",
  unit: "ms",
  bound: { of: "ours", atMost: 15 },
  statistic: "median",
  runs: 41,
  prepare: openSession,
  ours: async ({ session }, signal) => {
    let hadMs = 0
    // The agent is a shell: what it is given tells the time at which it has it, by the clock that the server has, too.
    const { createdAt } = await runPrompt(session, "date +%s%N", signal, (text) => {
      hadMs = Number(text) / 1e6
    })
    return hadMs - Date.parse(createdAt)
  },
})
