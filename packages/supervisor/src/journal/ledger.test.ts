import { statSync } from "node:fs"
import { join } from "node:path"
import type { PromptStart } from "@berth/protocol/bridge"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it, onTestFinished } from "vitest"
import { type Ledger, openLedger } from "./ledger.ts"
import { temporaryDirectory } from "./testing/events.ts"

const prompt = (text = "do it"): PromptStart => ({
  prompt: newId.prompt(),
  session: newId.session(),
  text,
})

const open = async (directory: string) => {
  const ledger = await openLedger(directory)
  onTestFinished(() => ledger.close())
  return ledger
}

describe("the ledger", () => {
  it("[R3.4] answers a repeated prompt with its standing, in every state and each time it is opened again", async () => {
    const directory = temporaryDirectory()
    const start = prompt()
    const result = { state: "failed", reason: "no such command" } as const
    const steps = [
      [(ledger: Ledger) => ledger.accept(start), { state: "accepted" }],
      [(ledger: Ledger) => ledger.start(start.prompt), { state: "started" }],
      [(ledger: Ledger) => ledger.end(start.prompt, result), { state: "ended", result }],
      [(ledger: Ledger) => ledger.report(start.prompt), { state: "ended", result }],
    ] as const
    for (const [step, standing] of steps) {
      await step(await open(directory))
      expect(await (await open(directory)).accept(start)).toEqual({ standing, isNew: false })
    }
  })

  it("[R3.4] accepts a prompt once, however often it is sent at the same time", async () => {
    const ledger = await open(temporaryDirectory())
    const start = prompt()
    const answers = await Promise.all(Array.from({ length: 20 }, () => ledger.accept(start)))
    expect(answers.filter(({ isNew }) => isNew)).toHaveLength(1)
    expect(answers.map(({ standing }) => standing)).toEqual(
      Array.from({ length: 20 }, () => ({ state: "accepted" })),
    )
  })

  it("[R3.4] notes a prompt that starts at once as started when it accepts it", async () => {
    const directory = temporaryDirectory()
    const [waits, starts] = [prompt(), prompt()]
    const killed = await open(directory)
    const accepted = killed.accept(starts, { startsNow: true })
    expect(await accepted).toEqual({ standing: { state: "started" }, isNew: true })
    await killed.accept(waits)

    const ledger = await open(directory)
    expect(ledger.started).toEqual([starts.prompt])
    expect(ledger.accepted).toEqual([waits])
  })

  it("[R3.4] tells after a crash which prompts are accepted, started and not reported", async () => {
    const directory = temporaryDirectory()
    const killed = await open(directory)
    const [first, second, started, ended, reported] = Array.from({ length: 5 }, (_, place) =>
      prompt(`prompt ${place}`),
    ) as [PromptStart, PromptStart, PromptStart, PromptStart, PromptStart]
    for (const start of [first, started, ended, second, reported]) await killed.accept(start)
    for (const start of [started, ended, reported]) await killed.start(start.prompt)
    for (const start of [ended, reported]) await killed.end(start.prompt, { state: "succeeded" })
    await killed.report(reported.prompt)

    const ledger = await open(directory)
    expect(ledger.accepted).toEqual([first, second])
    expect(ledger.started).toEqual([started.prompt])
    expect(ledger.unreported).toEqual([{ prompt: ended.prompt, result: { state: "succeeded" } }])
  })

  it("[R3.4] remembers every prompt without keeping the texts of those that have ended", async () => {
    const directory = temporaryDirectory()
    const ledger = await open(directory)
    const all = Array.from({ length: 60 }, () => prompt("x".repeat(50_000)))
    for (const start of all) {
      await ledger.accept(start)
      await ledger.start(start.prompt)
      await ledger.end(start.prompt, { state: "succeeded" })
    }
    expect(statSync(join(directory, "ledger")).size).toBeLessThan(1.5 * 1024 * 1024)
    const waiting = prompt("last")
    await ledger.accept(waiting)
    const next = await open(directory)
    for (const start of all)
      expect(next.standing(start.prompt)).toEqual({
        state: "ended",
        result: { state: "succeeded" },
      })
    expect(next.accepted).toEqual([waiting])
  })

  it("notes nothing once it is closed", async () => {
    const ledger = await openLedger(temporaryDirectory())
    await Promise.all([ledger.close(), ledger.close()])
    await expect(ledger.accept(prompt())).rejects.toMatchObject({ code: "journal.closed" })
  })
})
