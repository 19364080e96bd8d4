import { CLOSE } from "@berth/protocol/bridge-limits"
import { ERRORS, type ErrorCode } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it } from "vitest"
import { openBridge } from "./bridge.ts"
import { playSupervisor } from "./testing/played.ts"
import { firstFailure, TOKEN, watchBridge } from "./testing/watch.ts"

const upTo = (last: number) => Array.from({ length: last }, (_, place) => place + 1)

/** Opens a bridge to a played supervisor. */
const play = async (options: Partial<Parameters<typeof watchBridge>[0]> = {}) => {
  const supervisor = await playSupervisor()
  const { address, sandbox } = supervisor
  const watched = watchBridge({ address, sandbox, ...options })
  const numbers = () => watched.events.map(({ sequence }) => sequence)
  const untilUp = () => watched.until(() => watched.bridge.state.kind === "up")
  return { supervisor, watched, numbers, untilUp, bridge: watched.bridge }
}

describe("a bridge", () => {
  it("[R3.2] says hello with its last number, stores the events after it, and acknowledges them", async () => {
    const { supervisor, watched, numbers, untilUp } = await play()
    await untilUp()
    expect(supervisor.received[0]).toEqual({
      type: "hello",
      generation: 1,
      sandbox: supervisor.sandbox,
      lastSeen: 0,
    })
    supervisor.happen(3)
    await watched.until(() => numbers().length === 3)
    supervisor.happen(2)
    await supervisor.until(() => supervisor.acknowledged().at(-1) === 5)
    expect(numbers()).toEqual(upTo(5))
    expect(watched.bridge.lastSeen).toBe(5)
  })

  it("[R3.4] says hello with the last number that it stored after each of five drops", async () => {
    const { supervisor, watched, numbers, untilUp } = await play()
    await untilUp()
    for (let round = 1; round <= 5; round++) {
      supervisor.happen(2)
      await watched.until(() => numbers().length === 2 * round)
      supervisor.drop()
      await supervisor.until(() => supervisor.hellos().length === round + 1)
      expect(supervisor.hellos().at(-1)).toMatchObject({ lastSeen: 2 * round })
    }
    expect(numbers()).toEqual(upTo(10))
    expect(watched.states.map(({ kind }) => kind).slice(0, 5)).toEqual([
      ...["connecting", "up", "down", "connecting", "up"],
    ])
  })

  it("[R3.2] stores a message of 1,000 events in order, in parts of at most 256", async () => {
    const lengths: number[] = []
    const { supervisor, numbers, watched, untilUp } = await play({
      onEvents: async (events) => void lengths.push(events.length),
    })
    await untilUp()
    supervisor.happen(1_000)
    await watched.until(() => numbers().length === 1_000)
    expect(numbers()).toEqual(upTo(1_000))
    expect(Math.max(...lengths)).toBeLessThanOrEqual(256)
    await supervisor.until(() => supervisor.acknowledged().at(-1) === 1_000)
  })

  it("doubles its least pause after each wrong answer, also when the sandbox behaves in between", async () => {
    const { supervisor, watched, numbers, untilUp } = await play()
    const waits = () =>
      watched.states.flatMap((state) =>
        state.kind === "down" && state.reason.code === "bridge.protocol_violated"
          ? [state.retryInMs]
          : [],
      )
    for (let round = 1; round <= 5; round++) {
      await untilUp()
      supervisor.happen(1)
      await watched.until(() => numbers().length === round)
      supervisor.drop()
      await supervisor.until(() => supervisor.hellos().length === 2 * round)
      await untilUp()
      supervisor.send({ type: "events", events: [{}] })
      await watched.until(() => waits().length === round)
      await supervisor.until(() => supervisor.hellos().length === 2 * round + 1)
    }
    for (const [place, waitMs] of waits().entries())
      expect(waitMs).toBeGreaterThanOrEqual(25 * 2 ** place)
  })

  it("[R3.2] stores one gap in place of the events that the sandbox no longer holds", async () => {
    const { supervisor, watched, numbers, untilUp } = await play()
    await untilUp()
    supervisor.hold(7, 9)
    supervisor.drop()
    await watched.until(() => numbers().length === 4)
    expect(numbers()).toEqual([6, 7, 8, 9])
    expect(watched.events[0]?.body).toEqual({
      type: "gap",
      reason: "the events 1 to 6 of the sandbox are not held any more",
    })
    await supervisor.until(() => supervisor.acknowledged().at(-1) === 9)
  })

  it("[R3.4] acknowledges events only once they are stored, and gets them again when storing fails", async () => {
    const stored = Promise.withResolvers<void>()
    let calls = 0
    const { supervisor, watched, numbers, untilUp } = await play({
      onEvents: async () => {
        if (++calls === 1) await stored.promise
      },
    })
    await untilUp()
    supervisor.happen(3)
    await expect.poll(() => calls).toBe(1)
    supervisor.happen(2)
    expect(supervisor.acknowledged()).toEqual([])
    stored.reject(new Error("disk full"))
    expect(await firstFailure(watched)).toMatchObject({
      code: "bridge.store_failed",
      cause: new Error("disk full"),
    })
    await watched.until(() => numbers().length === 5)
    expect(numbers()).toEqual(upTo(5))
    await supervisor.until(() => supervisor.acknowledged().length > 0)
    expect(supervisor.hellos()).toMatchObject([{ lastSeen: 0 }, { lastSeen: 0 }])
  })

  it("[R3.4] waits until events are stored before it says hello again", async () => {
    const stored = Promise.withResolvers<void>()
    let calls = 0
    const { supervisor, watched, numbers, untilUp } = await play({
      onEvents: async () => {
        if (++calls === 1) await stored.promise
      },
    })
    await untilUp()
    supervisor.happen(3)
    await expect.poll(() => calls).toBe(1)
    supervisor.happen(1)
    supervisor.drop()
    // Longer than the pause before another try.
    await new Promise((resolve) => setTimeout(resolve, 200))
    stored.resolve()
    await watched.until(() => numbers().length === 4)
    expect(supervisor.hellos()).toMatchObject([{ lastSeen: 0 }, { lastSeen: 3 }])
    expect(numbers()).toEqual(upTo(4))
  })

  it("starts and stops a prompt, and gets the answers in order", async () => {
    const { supervisor, untilUp, bridge } = await play()
    await untilUp()
    const start = { prompt: newId.prompt(), session: newId.session(), text: "do it" }
    const asked = [bridge.startPrompt(start), bridge.stopPrompt(start.prompt)]
    await supervisor.until(() => supervisor.received.length === 3)
    expect(supervisor.received.slice(1)).toEqual([
      { type: "prompt.start", ...start },
      { type: "prompt.stop", prompt: start.prompt },
    ])
    const ended = { state: "ended", result: { state: "stopped" } }
    for (const standing of [{ state: "accepted" }, ended])
      supervisor.send({ type: "prompt.standing", prompt: start.prompt, standing })
    expect(await Promise.all(asked)).toEqual([{ state: "accepted" }, ended])
  })

  it("passes on why the sandbox refused a prompt, without control characters", async () => {
    const { supervisor, untilUp, bridge } = await play()
    await untilUp()
    const prompt = newId.prompt()
    const asked = bridge.stopPrompt(prompt)
    asked.catch(() => {})
    await supervisor.until(() => supervisor.received.length === 2)
    const reason = "no \u001b[31mspace\u0007"
    supervisor.send({ type: "prompt.refused", prompt, code: "journal.disk_full", reason })
    await expect(asked).rejects.toMatchObject({
      code: "bridge.refused",
      details: { prompt, code: "journal.disk_full", sandboxSaid: "no �[31mspace�" },
    })
  })

  it("gives up on an answer at its deadline, and does not take a late answer for the next", async () => {
    const { supervisor, untilUp, bridge } = await play({ deadlines: { answerMs: 200 } })
    await untilUp()
    const prompt = newId.prompt()
    await expect(bridge.stopPrompt(prompt)).rejects.toMatchObject({
      code: "bridge.timed_out",
      details: { prompt, deadlineMs: 200 },
    })
    const second = bridge.stopPrompt(prompt)
    await supervisor.until(() => supervisor.received.length === 3)
    for (const state of ["unknown", "started"])
      supervisor.send({ type: "prompt.standing", prompt, standing: { state } })
    expect(await second).toEqual({ state: "started" })
  })

  it("fails a question while it is down or when it drops, with the reason", async () => {
    const address = { path: "/nowhere/socket" }
    const watched = watchBridge({ address })
    const { code } = await firstFailure(watched)
    await expect(watched.bridge.stopPrompt(newId.prompt())).rejects.toMatchObject({
      code: "bridge.down",
      details: { reason: code },
    })
    const { supervisor, untilUp, bridge } = await play()
    await untilUp()
    const asked = bridge.stopPrompt(newId.prompt())
    asked.catch(() => {})
    await supervisor.until(() => supervisor.received.length === 2)
    supervisor.drop()
    await expect(asked).rejects.toMatchObject({
      code: "bridge.down",
      details: { reason: "bridge.dropped" },
    })
  })

  it("has at most 256 questions without an answer", async () => {
    const { untilUp, bridge, watched } = await play()
    await untilUp()
    const asked = Array.from({ length: 300 }, () =>
      bridge.stopPrompt(newId.prompt()).catch(({ code }) => code),
    )
    const refused = await Promise.race(asked)
    expect(refused).toBe("bridge.congested")
    await watched.close()
    const codes = await Promise.all(asked)
    expect(codes.filter((code) => code === "bridge.congested")).toHaveLength(300 - 256)
    expect(codes.filter((code) => code === "bridge.down")).toHaveLength(256)
  })

  it.each<[string, number, ErrorCode]>([
    ["goes down", CLOSE.stopping, "bridge.dropped"],
    ["has another client", CLOSE.replaced, "bridge.replaced"],
    ["is of another generation", CLOSE.generationMismatch, "bridge.generation_mismatch"],
    ["does not hold the next event", CLOSE.historyLost, "bridge.history_lost"],
    ["does not understand", CLOSE.protocolViolated, "bridge.protocol_violated"],
    ["cannot use its journal", CLOSE.journalUnusable, "bridge.refused"],
    ["closes for another reason", 4999, "bridge.dropped"],
  ])("reports that the sandbox %s", async (_what, closeCode, code) => {
    const { supervisor, watched, untilUp } = await play()
    await untilUp()
    supervisor.close(closeCode, "its own words")
    expect(await firstFailure(watched)).toMatchObject({
      code,
      details: { sandboxSaid: "its own words" },
    })
    expect(ERRORS[code].hint).not.toBe("")
  })

  it("closes while it stores, waits or connects, and does not open once it is aborted", async () => {
    const storing = Promise.withResolvers<void>()
    let calls = 0
    const { supervisor, watched, untilUp } = await play({
      onEvents: () => {
        calls++
        return storing.promise
      },
    })
    await untilUp()
    supervisor.happen(1)
    await expect.poll(() => calls).toBe(1)
    const closing = watched.close()
    storing.resolve()
    await closing
    expect(watched.bridge.state).toEqual({ kind: "closed" })
    expect(watched.events).toHaveLength(1)
    expect(watched.bridge.lastSeen).toBe(1)

    const waiting = watchBridge({ address: { path: "/nowhere/socket" } })
    await firstFailure(waiting)
    await waiting.close()
    const connecting = watchBridge({ address: { path: "/nowhere/socket" } })
    await connecting.close()

    const never = openBridge(
      {
        address: supervisor.address,
        token: TOKEN,
        sandbox: supervisor.sandbox,
        lastSeen: 0,
        onEvents: async () => {},
      },
      AbortSignal.abort(),
    )
    await never.closed
    expect(never.state).toEqual({ kind: "closed" })
    expect(supervisor.hellos()).toHaveLength(1)
  })
})
