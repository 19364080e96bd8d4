import { join } from "node:path"
import type { PromptResult, PromptStart } from "@berth/protocol/bridge"
import type { EventBody } from "@berth/protocol/event"
import { newId, type PromptId } from "@berth/protocol/ids"
import { describe, expect, it, onTestFinished } from "vitest"
import { type Journal, openJournal } from "../journal/journal.ts"
import { type Ledger, openLedger } from "../journal/ledger.ts"
import { temporaryDirectory } from "../journal/testing/events.ts"
import { type AnswerAsk, openPrompts, type RunPrompt } from "./prompts.ts"

const prompt = (session = newId.session()): PromptStart => ({
  prompt: newId.prompt(),
  session,
  text: "do it",
})

const succeed: RunPrompt = async () => ({ state: "succeeded" })

/** Opens the parts of one supervisor on the directory. A supervisor counts as killed when the test opens the next one. */
const live = async (directory: string, run: RunPrompt, answer?: AnswerAsk) => {
  const journal = await openJournal({ directory: join(directory, "journal") })
  const ledger = await openLedger(join(directory, "ledger"))
  const prompts = await openPrompts({ journal, ledger, run, ...(answer && { answer }) })
  onTestFinished(async () => {
    await prompts.close()
    await journal.close()
    await ledger.close()
  })
  return { journal, ledger, prompts }
}

/** Reads the states of prompts from the journal, each as `PROMPT STATE`. */
const toldIn = async (journal: Journal, count: number): Promise<string[]> => {
  const reader = journal.readAfter(journal.first - 1)
  const told: string[] = []
  while (told.length < count) {
    const { events } = await reader.next(1_000_000, AbortSignal.timeout(10_000))
    for (const text of events) {
      const { body } = JSON.parse(text)
      if (body.type === "prompt.state") told.push(`${body.prompt} ${body.state}`)
    }
  }
  await reader.close()
  return told
}

const bodiesIn = async (journal: Journal): Promise<EventBody[]> => {
  const reader = journal.readAfter(journal.first - 1)
  const { events } = await reader.next(1_000_000, AbortSignal.timeout(10_000))
  await reader.close()
  return events.map((text) => JSON.parse(text).body)
}

const states = ({ prompt: id }: PromptStart, ...names: string[]) =>
  names.map((name) => `${id} ${name}`)

/** A run that the test ends by hand. */
const byHand = () => {
  const runs = new Map<PromptId, PromiseWithResolvers<PromptResult>>()
  const started: PromptId[] = []
  const arrived: (() => void)[] = []
  const run: RunPrompt = ({ prompt: id }, signal) => {
    const ending = Promise.withResolvers<PromptResult>()
    signal.addEventListener("abort", () => ending.reject(new Error("aborted")))
    runs.set(id, ending)
    started.push(id)
    for (const wake of arrived.splice(0)) wake()
    return ending.promise
  }
  const untilStarted = async (count: number) => {
    while (started.length < count) await new Promise<void>((resolve) => arrived.push(resolve))
  }
  return {
    run,
    started,
    untilStarted,
    end: (id: PromptId) => runs.get(id)?.resolve({ state: "succeeded" }),
  }
}

describe("prompts", () => {
  it("[R2.12] are accepted before the gate opens, and run only when it is open", async () => {
    const { run, started, untilStarted, end } = byHand()
    const { prompts, journal } = await live(temporaryDirectory(), run)
    const [first, second] = [prompt(), prompt()]
    expect(await prompts.start(first)).toEqual({ state: "accepted" })
    expect(await prompts.start(second)).toEqual({ state: "accepted" })
    expect(started).toEqual([])
    expect(prompts.count).toBe(2)
    prompts.open()
    await untilStarted(2)
    expect(await prompts.start(first)).toEqual({ state: "started" })
    end(first.prompt)
    end(second.prompt)
    expect((await toldIn(journal, 4)).sort()).toEqual(
      [first, second].flatMap((start) => states(start, "running", "succeeded")).sort(),
    )
    expect(await prompts.start(first)).toEqual({ state: "ended", result: { state: "succeeded" } })
  })

  it("run one at a time in a session, in order, and beside the prompts of other sessions", async () => {
    const { run, started, untilStarted, end } = byHand()
    const { prompts } = await live(temporaryDirectory(), run)
    prompts.open()
    const session = newId.session()
    const [first, second, third, other] = [
      prompt(session),
      prompt(session),
      prompt(session),
      prompt(),
    ]
    for (const start of [first, second, third, other]) await prompts.start(start)
    await untilStarted(2)
    expect(started).toEqual([first.prompt, other.prompt])
    end(first.prompt)
    await untilStarted(3)
    end(second.prompt)
    await untilStarted(4)
    expect(started).toEqual([first, other, second, third].map((start) => start.prompt))
  })

  it("start with the write that accepts them where no other prompt waits, and in order where several come together", async () => {
    const { run, started, untilStarted, end } = byHand()
    const { prompts, ledger } = await live(temporaryDirectory(), run)
    prompts.open()
    const session = newId.session()
    const [first, second, third] = [prompt(session), prompt(session), prompt(session)]
    const standings = [first, second].map((start) => prompts.start(start))
    expect(await Promise.all(standings)).toEqual([{ state: "started" }, { state: "accepted" }])
    await untilStarted(1)
    end(first.prompt)
    await prompts.start(third)
    await untilStarted(2)
    expect(ledger.standing(third.prompt)).toEqual({ state: "accepted" })
    end(second.prompt)
    await untilStarted(3)
    expect(started).toEqual([first, second, third].map((start) => start.prompt))
  })

  it("[R3.4] run once, however often they are sent", async () => {
    const { run, started, untilStarted, end } = byHand()
    const { prompts, journal } = await live(temporaryDirectory(), run)
    prompts.open()
    const start = prompt()
    await Promise.all(Array.from({ length: 10 }, () => prompts.start(start)))
    await untilStarted(1)
    await Promise.all(Array.from({ length: 10 }, () => prompts.start(start)))
    end(start.prompt)
    expect(await toldIn(journal, 2)).toEqual(states(start, "running", "succeeded"))
    await prompts.start(start)
    expect(started).toHaveLength(1)
  })

  it("are stopped while they wait and while they run; a stop of an ended or unknown prompt changes nothing", async () => {
    const { run, untilStarted } = byHand()
    const { prompts, journal } = await live(temporaryDirectory(), run)
    const session = newId.session()
    const [running, waiting] = [prompt(session), prompt(session)]
    prompts.open()
    await prompts.start(running)
    await prompts.start(waiting)
    await untilStarted(1)
    const stopped = { state: "ended", result: { state: "stopped" } }
    expect(await prompts.stop(waiting.prompt)).toEqual(stopped)
    expect(await prompts.stop(running.prompt)).toEqual({ state: "started" })
    expect(await toldIn(journal, 3)).toEqual([
      ...states(running, "running"),
      ...states(waiting, "stopped"),
      ...states(running, "stopped"),
    ])
    expect(await prompts.stop(waiting.prompt)).toEqual(stopped)
    expect(await prompts.stop(newId.prompt())).toEqual({ state: "unknown" })
  })

  it("are stopped by a stop that comes right behind the start", async () => {
    const { run, started } = byHand()
    const { prompts, journal } = await live(temporaryDirectory(), run)
    const start = prompt()
    const said = [prompts.start(start), prompts.stop(start.prompt), prompts.start(start)]
    const stopped = { state: "ended", result: { state: "stopped" } }
    expect(await Promise.all(said)).toEqual([{ state: "accepted" }, stopped, stopped])
    prompts.open()
    expect(await toldIn(journal, 1)).toEqual(states(start, "stopped"))
    expect(started).toEqual([])
  })

  it("that throw have failed, with the reason", async () => {
    const { prompts, journal } = await live(temporaryDirectory(), async () => {
      throw new Error("no such agent")
    })
    prompts.open()
    const start = prompt()
    await prompts.start(start)
    await toldIn(journal, 2)
    expect(await prompts.start(start)).toEqual({
      state: "ended",
      result: { state: "failed", reason: "no such agent" },
    })
  })

  it("get a person's answers while they run, and refuse answers that nothing waits for", async () => {
    const { run, untilStarted, end } = byHand()
    const heard: unknown[] = []
    const { prompts, journal } = await live(temporaryDirectory(), run, (id, answer) => {
      heard.push([id, answer])
      return answer.ask === "per_1"
    })
    const start = prompt()
    const answer = { kind: "permission", ask: "per_1", allow: true } as const
    const refused = { code: "session.nothing_asked" }
    await prompts.start(start)
    await expect(prompts.answer(start.prompt, answer)).rejects.toMatchObject(refused)
    prompts.open()
    await untilStarted(1)
    expect(await prompts.answer(start.prompt, answer)).toEqual({ state: "started" })
    await expect(
      prompts.answer(start.prompt, { kind: "question", ask: "que_1", answer: null }),
    ).rejects.toMatchObject(refused)
    end(start.prompt)
    await toldIn(journal, 2)
    await expect(prompts.answer(start.prompt, answer)).rejects.toMatchObject(refused)
    expect(heard).toHaveLength(2)
  })

  it("are stopped and reported as failed when their time is over", async () => {
    const { run } = byHand()
    const { prompts, journal } = await live(temporaryDirectory(), run)
    prompts.open()
    const start = { ...prompt(), deadlineMs: 30 }
    await prompts.start(start)
    expect(await toldIn(journal, 2)).toEqual(states(start, "running", "failed"))
    expect(await bodiesIn(journal)).toContainEqual(
      expect.objectContaining({ type: "error", prompt: start.prompt, code: "prompt.overdue" }),
    )
    expect(await prompts.start(start)).toEqual({
      state: "ended",
      result: { state: "failed", reason: "the prompt did not end within 30 ms" },
    })
  })

  it("that end or are stopped within their time keep that outcome", async () => {
    const { run, untilStarted, end } = byHand()
    const { prompts, journal } = await live(temporaryDirectory(), run)
    prompts.open()
    const [first, second] = [prompt(), prompt()].map((start) => ({ ...start, deadlineMs: 60_000 }))
    await prompts.start(first as PromptStart)
    await prompts.start(second as PromptStart)
    await untilStarted(2)
    end(first?.prompt as PromptId)
    await prompts.stop(second?.prompt as PromptId)
    expect((await toldIn(journal, 4)).map((told) => told.split(" ")[1]).sort()).toEqual([
      ...["running", "running", "stopped", "succeeded"],
    ])
  })

  it("[R2.14] are interrupted when the supervisor ends; waiting prompts stay accepted", async () => {
    const directory = temporaryDirectory()
    const { run, untilStarted } = byHand()
    const { prompts, journal, ledger } = await live(directory, run)
    const session = newId.session()
    const [running, waiting] = [prompt(session), prompt(session)]
    prompts.open()
    await prompts.start(running)
    await prompts.start(waiting)
    await untilStarted(1)
    await Promise.all([prompts.close(), prompts.close()])
    expect(await toldIn(journal, 2)).toEqual(states(running, "running", "interrupted"))
    expect(ledger.accepted).toEqual([waiting])
  })
})

describe("prompts after a kill", () => {
  it("[R3.4] that were only accepted are started, in their order", async () => {
    const directory = temporaryDirectory()
    const session = newId.session()
    const all = [prompt(session), prompt(session), prompt(session)]
    const killed = await live(directory, succeed)
    for (const start of all) await killed.prompts.start(start)

    const { prompts, journal } = await live(directory, succeed)
    prompts.open()
    expect(await toldIn(journal, 6)).toEqual(
      all.flatMap((start) => states(start, "running", "succeeded")),
    )
  })

  it("[R3.4] that were started are interrupted, and never run again", async () => {
    const directory = temporaryDirectory()
    const { run, untilStarted } = byHand()
    const killed = await live(directory, run)
    const start = prompt()
    killed.prompts.open()
    await killed.prompts.start(start)
    await untilStarted(1)

    const { prompts, journal } = await live(directory, () => {
      throw new Error("it ran twice")
    })
    prompts.open()
    expect(await toldIn(journal, 2)).toEqual(states(start, "running", "interrupted"))
    expect(await prompts.start(start)).toMatchObject({
      state: "ended",
      result: {
        state: "interrupted",
        reason: expect.stringContaining("ended while the prompt ran"),
      },
    })
  })

  it.each<
    [string, (parts: { ledger: Ledger; journal: Journal }, start: PromptStart) => Promise<void>]
  >([
    [
      "before its end was told",
      async ({ ledger }, start) => ledger.end(start.prompt, { state: "succeeded" }),
    ],
    [
      "between telling its end and noting that",
      async ({ ledger, journal }, start) => {
        await ledger.end(start.prompt, { state: "succeeded" })
        await journal.append({ type: "prompt.state", prompt: start.prompt, state: "succeeded" })
      },
    ],
    [
      "after all was noted",
      async ({ ledger, journal }, start) => {
        await ledger.end(start.prompt, { state: "succeeded" })
        await journal.append({ type: "prompt.state", prompt: start.prompt, state: "succeeded" })
        await ledger.report(start.prompt)
      },
    ],
  ])("[R3.4] tell their end exactly once: killed %s", async (_when, until) => {
    const directory = temporaryDirectory()
    const killed = await live(directory, succeed)
    const start = prompt()
    await killed.ledger.accept(start)
    await killed.ledger.start(start.prompt)
    await killed.journal.append({ type: "warning", message: "another event" })
    await until(killed, start)

    for (let life = 0; life < 3; life++) {
      const { prompts, journal, ledger } = await live(directory, succeed)
      prompts.open()
      await expect.poll(() => ledger.unreported).toEqual([])
      expect(await toldIn(journal, 1)).toEqual(states(start, "succeeded"))
    }
  })

  it("[R3.4] tell their end once although the server acknowledged it before that was noted", async () => {
    const directory = temporaryDirectory()
    const killed = await live(directory, succeed)
    const [start, running] = [prompt(), prompt()]
    for (const one of [start, running]) {
      await killed.ledger.accept(one)
      await killed.ledger.start(one.prompt)
    }
    await killed.ledger.end(start.prompt, { state: "succeeded" })
    await killed.journal.append({ type: "prompt.state", prompt: start.prompt, state: "succeeded" })

    // A small journal, so that acknowledged events are soon gone.
    const maxBytes = 16 * 1024
    const journal = await openJournal({ directory: join(directory, "journal"), maxBytes })
    for (let count = 0; count < 20; count++)
      await journal.append({ type: "warning", message: "x".repeat(500) })
    const ledger = await openLedger(join(directory, "ledger"))
    const opening = openPrompts({ journal, ledger, run: succeed })
    // The server acknowledges while the recovery notes that the other prompt was interrupted.
    await journal.acknowledge(journal.last)
    const prompts = await opening
    await expect.poll(() => ledger.unreported).toEqual([])
    expect(journal.last).toBe(22)
    await journal.acknowledge(journal.last)
    expect(journal.first).toBeGreaterThan(1)
    await prompts.close()
    await journal.close()
    await ledger.close()
  })
})
