import type { SessionId } from "@berth/protocol/ids"
import { benchmark } from "../benchmark.ts"
import { makeDataDir, removeAll, type StartedServer, startServer } from "../fixtures/served.ts"
import { runPrompt } from "../fixtures/sessions.ts"
import { median } from "../statistics.ts"

/** A line each 20 ms, for longer than all runs take. */
const TALKS = "while :; do date +%s%N; sleep 0.02; done"

/** The gap that a person sees in a running prompt's output when the server crashes and is started again at once. */
export default benchmark({
  what: "from a kill -9 of the server, started again at once, to the first output of the running prompt that was written after it",
  unit: "ms",
  bound: { of: "ours", atMost: 1_000 },
  statistic: "median",
  runs: 15,
  prepare: async (context) => {
    const dataDir = await makeDataDir(context)
    const first = await startServer(dataDir, [], context.signal)
    const state = { dataDir, server: first, answersMs: [] as number[] }
    context.onEnd(() => end(state.server))
    const session = await first.client.sessions.create({
      workspace: { slug: "bench", network: { kind: "none" } },
    })
    await runPrompt(session, "true", context.signal)
    await session.prompt(TALKS, { signal: context.signal })
    return { state, session: session.id }
  },
  ours: async ({ state, session }, signal) => {
    const { lastEvent } = await state.server.client.sessions.at(session).get({ signal })
    const killedMs = Date.now()
    await state.server.kill()
    state.server = await startServer(state.dataDir, [], signal)
    state.answersMs.push(Date.now() - killedMs)
    return (await firstWrittenAfter(killedMs, state.server, session, lastEvent, signal)) - killedMs
  },
  note: ({ state: { answersMs } }) => `the server answers after ${median(answersMs)} ms`,
})

/** When the client has the first output that the prompt wrote after a moment. */
const firstWrittenAfter = async (
  momentMs: number,
  { client }: StartedServer,
  session: SessionId,
  after: number,
  signal: AbortSignal,
): Promise<number> => {
  for await (const { body } of client.sessions.at(session).events({ after, signal })) {
    if (body.type !== "message.delta") continue
    const lines = body.text.trim().split("\n")
    if (Number(lines.at(-1)) / 1e6 > momentMs) return Date.now()
  }
  throw new Error("the events ended before the prompt")
}

const end = async ({ client, stop }: StartedServer): Promise<void> => {
  await removeAll(client)
  await stop()
}
