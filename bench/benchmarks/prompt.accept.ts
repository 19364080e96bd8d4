import { benchmark } from "../benchmark.ts"
import { openSession, runPrompt } from "../fixtures/sessions.ts"
import { median } from "../statistics.ts"

/** The time that a person waits before the agent begins. */
export default benchmark({
  what: "from the moment that the server took a prompt to the agent that has it, in a sandbox that is ready",
  unit: "ms",
  bound: { of: "ours", atMost: 15 },
  statistic: "median",
  runs: 41,
  prepare: async (context) => ({
    session: (await openSession(context)).session,
    untilStartedMs: [] as number[],
  }),
  ours: async ({ session, untilStartedMs }, signal) => {
    // Server, supervisor and agent read the same clock. The agent is a shell that prints the time.
    let startedMs = 0
    let hadMs = 0
    const { createdAt } = await runPrompt(session, "date +%s%N", signal, ({ at, body }) => {
      if (body.type === "message.delta") hadMs = Number(body.text) / 1e6
      else if (body.state === "running") startedMs = Date.parse(at)
    })
    untilStartedMs.push(startedMs - Date.parse(createdAt))
    return hadMs - Date.parse(createdAt)
  },
  note: ({ untilStartedMs }) =>
    `the supervisor had noted it as started after ${median(untilStartedMs)} ms; the rest is the start of a shell and of date`,
})
