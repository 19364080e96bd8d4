import { setImmediate as turn } from "node:timers/promises"
import { type HostAnswer, HostRequestId } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import { describe, expect, it } from "vitest"
import type { OnHostRequest } from "./answers.ts"
import { BURST_HOST_REQUESTS, HOST_REQUESTS_PER_SECOND } from "./limits.ts"
import { playSupervisor } from "./testing/played.ts"
import { watchBridge } from "./testing/watch.ts"

const idOf = (place: number) => HostRequestId.parse(`ask-${String(place).padStart(20, "0")}`)
const askOf = (place: number) => ({
  type: "ask",
  id: idOf(place),
  ask: { kind: "credential", protocol: "https", host: "example.test", path: String(place) },
})

/** Opens a bridge to a played supervisor, whose questions `onHostRequest` answers. */
const play = async (onHostRequest?: OnHostRequest) => {
  const supervisor = await playSupervisor()
  const { address, sandbox } = supervisor
  const watched = watchBridge({ address, sandbox, ...(onHostRequest && { onHostRequest }) })
  await watched.until(() => watched.bridge.state.kind === "up")
  const answers = () => supervisor.received.filter(({ type }) => type === "answer")
  const untilAnswered = (count: number) => supervisor.until(() => answers().length >= count)
  return { supervisor, watched, answers, untilAnswered }
}

const GRANTED: HostAnswer = { kind: "credential", username: "u", password: "p" }

describe("a host request", () => {
  it("is answered under its id, and refused without an error's details", async () => {
    const { supervisor, answers, untilAnswered } = await play(async ({ request }) => {
      if (request.kind === "credential" && request.path === "1") return GRANTED
      if (request.kind === "credential" && request.path === "2")
        throw new BerthError("credentials.none", "there is none", { details: { at: "/root" } })
      throw new Error("/root is broken")
    })
    for (const place of [1, 2, 3]) supervisor.send(askOf(place))
    await untilAnswered(3)
    expect(answers()).toEqual([
      { type: "answer", id: idOf(1), answer: GRANTED },
      {
        type: "answer",
        id: idOf(2),
        answer: { kind: "refused", code: "credentials.none", reason: "there is none" },
      },
      {
        type: "answer",
        id: idOf(3),
        answer: { kind: "refused", code: "internal", reason: "unexpected failure" },
      },
    ])
  })

  it("is refused where the server has no answers", async () => {
    const { supervisor, answers, untilAnswered } = await play()
    supervisor.send(askOf(1))
    await untilAnswered(1)
    expect(answers()).toMatchObject([{ answer: { kind: "refused", code: "bridge.refused" } }])
  })

  it("waits while another of its kind is answered, and not for one of another kind", async () => {
    const waiting = { credential: [] as (() => void)[], repo: [] as (() => void)[] }
    let most = 0
    const { supervisor, untilAnswered } = await play(async ({ request: { kind } }) => {
      if (kind === "keys") return { kind, keys: {} }
      if (kind === "host-port") return { kind }
      await new Promise<void>((resolve) => {
        most = Math.max(most, waiting[kind].push(resolve))
      })
      return kind === "credential" ? GRANTED : { kind, commit: "0".repeat(40), bundled: false }
    })
    const repo = { kind: "repo", repo: "web", have: [] }
    for (let place = 0; place < 8; place++) supervisor.send({ ...askOf(place), ask: repo })
    for (let place = 8; place < 32; place++) supervisor.send(askOf(place))
    const finish = async (kind: "credential" | "repo", count: number) => {
      for (let done = 0; done < count; done++) {
        await expect.poll(() => waiting[kind].length).toBeGreaterThan(0)
        await turn()
        waiting[kind].shift()?.()
      }
    }
    await finish("credential", 24)
    await untilAnswered(24)
    await finish("repo", 8)
    await untilAnswered(32)
    expect(most).toBe(1)
  })

  it("is answered no faster than the rate of the sandbox, over all its connections", async () => {
    const { supervisor, watched, answers, untilAnswered } = await play(async () => GRANTED)
    const startedMs = performance.now()
    const more = 4
    for (let place = 0; place < BURST_HOST_REQUESTS + more; place++) {
      supervisor.send(askOf(place))
      await untilAnswered(place + 1)
      if (place % 20 === 0) {
        const hellos = supervisor.hellos().length
        supervisor.drop()
        await supervisor.until(() => supervisor.hellos().length > hellos)
        await watched.until(() => watched.bridge.state.kind === "up")
      }
    }
    expect(answers()).toHaveLength(BURST_HOST_REQUESTS + more)
    const leastMs = ((more - 1) / HOST_REQUESTS_PER_SECOND) * 1_000
    expect(performance.now() - startedMs).toBeGreaterThan(leastMs)
  })

  it("is given up with its connection, and answered when it is asked again on the next", async () => {
    const signals: AbortSignal[] = []
    const { supervisor, answers, untilAnswered } = await play(async (_, signal) => {
      if (signals.push(signal) > 1) return GRANTED
      await new Promise((resolve) => signal.addEventListener("abort", resolve))
      throw signal.reason
    })
    supervisor.send(askOf(1))
    await expect.poll(() => signals.length).toBe(1)
    supervisor.drop()
    await supervisor.until(() => supervisor.hellos().length === 2)
    expect(signals[0]?.aborted).toBe(true)
    supervisor.send(askOf(1))
    await untilAnswered(1)
    expect(answers()).toMatchObject([{ id: idOf(1), answer: GRANTED }])
  })
})
