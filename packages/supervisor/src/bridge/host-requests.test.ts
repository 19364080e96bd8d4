import type { HostAnswer, HostRequest, HostRequestId } from "@berth/protocol/bridge"
import { HostRequestId as AskIdSchema } from "@berth/protocol/bridge"
import { MAX_PENDING_HOST_REQUESTS } from "@berth/protocol/bridge-limits"
import { describe, expect, it } from "vitest"
import { HostRequests } from "./host-requests.ts"
import { connect, helloTo, serve } from "./testing/supervisor.ts"

const never = new AbortController().signal
const QUESTION: Extract<HostRequest, { kind: "credential" }> = {
  kind: "credential",
  protocol: "https",
  host: "example.test",
  path: "repo",
}
const GRANTED: HostAnswer = { kind: "credential", username: "u", password: "p" }

/** Makes host requests, and notes those that are sent on connections that the test plays. */
const play = (options?: ConstructorParameters<typeof HostRequests>[0]) => {
  const hostRequests = new HostRequests(options)
  const said: HostRequestId[] = []
  const join = () => hostRequests.connect(({ id }) => said.push(id))
  return { hostRequests, said, join }
}

const lastOf = (said: readonly HostRequestId[]) => said.at(-1) as HostRequestId

describe("a question to the server", () => {
  it("waits for a connection, and is sent again on each connection until it is answered", async () => {
    const { hostRequests, said, join } = play()
    const answer = hostRequests.send(QUESTION, never)
    const leave = join()
    leave()
    join()
    const [id] = said
    expect(said).toEqual([id, id])
    expect(AskIdSchema.safeParse(id).success).toBe(true)
    hostRequests.answer(lastOf(said), GRANTED)
    expect(await answer).toEqual(GRANTED)
    join()
    expect(said).toHaveLength(2)
  })

  it("is not lost when the old connection ends after the next one has begun", async () => {
    const { hostRequests, said, join } = play({ serverAbsentMs: 50 })
    const leave = join()
    join()
    leave()
    const answer = hostRequests.send(QUESTION, never)
    hostRequests.answer(lastOf(said), GRANTED)
    expect(await answer).toEqual(GRANTED)
  })

  it("fails when no server comes in time, with a hint that names berth serve", async () => {
    const { hostRequests, join } = play({ serverAbsentMs: 20 })
    const expected = { code: "server.not_running", hint: expect.stringContaining("berth serve") }
    await expect(hostRequests.send(QUESTION, never)).rejects.toMatchObject(expected)
    const leave = join()
    const answer = hostRequests.send(QUESTION, never)
    leave()
    await expect(answer).rejects.toMatchObject(expected)
  })

  it("fails when the server does not answer in time, and with the server's own refusal", async () => {
    const deadlines = { credential: 20, repo: 20, keys: 20, "host-port": 20 }
    const { hostRequests, said, join } = play({ answerDeadlinesMs: deadlines })
    join()
    await expect(hostRequests.send(QUESTION, never)).rejects.toMatchObject({
      code: "deadline.exceeded",
    })
    const refusals: [string, string][] = [
      ["credentials.none", "credentials.none"],
      ["of.another.version", "bridge.refused"],
      ["toString", "bridge.refused"],
    ]
    for (const [code, expected] of refusals) {
      const answer = hostRequests.send(QUESTION, never)
      hostRequests.answer(lastOf(said), { kind: "refused", code, reason: "no" })
      await expect(answer).rejects.toMatchObject({ code: expected, message: "no" })
    }
    const answer = hostRequests.send(QUESTION, never)
    hostRequests.answer(lastOf(said), { kind: "repo", commit: "0".repeat(40), bundled: true })
    await expect(answer).rejects.toMatchObject({ code: "bridge.protocol_violated" })
  })

  it("keeps its place at the server when it is given up, so that no more questions are sent than the server takes", async () => {
    const { hostRequests, said, join } = play()
    join()
    const stop = new AbortController()
    const given = Array.from({ length: 100 }, () => hostRequests.send(QUESTION, stop.signal))
    expect(said).toHaveLength(MAX_PENDING_HOST_REQUESTS)
    stop.abort(new Error("enough"))
    for (const ask of given) await expect(ask).rejects.toThrow("enough")
    const answer = hostRequests.send(QUESTION, never)
    expect(said).toHaveLength(MAX_PENDING_HOST_REQUESTS)
    // The late answer to an abandoned question makes room.
    hostRequests.answer(said[0] as HostRequestId, GRANTED)
    expect(said).toHaveLength(MAX_PENDING_HOST_REQUESTS + 1)
    hostRequests.answer(lastOf(said), GRANTED)
    expect(await answer).toEqual(GRANTED)
  })

  it("is not sent when its caller has already given up", async () => {
    const { hostRequests, said, join } = play()
    join()
    await expect(hostRequests.send(QUESTION, AbortSignal.abort())).rejects.toThrow("aborted")
    expect(said).toEqual([])
  })

  it("comes after hello on a real connection, and is answered there; other answers are ignored", async () => {
    const hostRequests = new HostRequests()
    const { path, sandbox, journal } = await serve({ hostRequests })
    const answer = hostRequests.send(QUESTION, never)
    for (const round of [1, 2]) {
      const { opened, say, received, until, websocket } = connect(path)
      await opened
      say(helloTo(sandbox))
      await until(() => received.length === 2)
      expect(received).toMatchObject([{ type: "hello" }, { type: "ask", ask: QUESTION }])
      const id = received[1]?.id
      say({ type: "answer", id: "ask-00000000000000000000", answer: GRANTED })
      if (round === 1) websocket.terminate()
      else say({ type: "answer", id, answer: GRANTED })
    }
    expect(await answer).toEqual(GRANTED)
    expect(journal.last).toBe(0)
  })
})
