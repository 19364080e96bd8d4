import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"
import type { PromptId } from "@berth/protocol/ids"
import { sized } from "@berth/testing/sampled"
import { runSeed, seededFor } from "@berth/testing/seed"
import { expect, it, onTestFinished } from "vitest"
import { openLedger } from "./ledger.ts"
import { counted, readAll, reopened, temporaryDirectory } from "./testing/events.ts"

const WRITER = join(import.meta.dirname, "testing", "writer.ts")
const ROUNDS = sized("kills of a journal", { few: 4, all: 10 })

/** Runs the writer until it has printed that many lines, kills it, and returns all its lines. */
const runUntilKilled = async (directory: string, seed: number, lines: number) => {
  const child = spawn(process.execPath, ["--conditions=source", WRITER, directory, String(seed)], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  const ended = once(child, "close")
  onTestFinished(async () => {
    child.kill("SIGKILL")
    await ended
  })
  const said: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    if (said.push(line) === lines) child.kill("SIGKILL")
  }
  expect(await ended).toEqual([null, "SIGKILL"])
  return said.map((line) => line.split(" ") as [string, string])
}

it(`[R3.4] the journal loses no promised event, and has no gap and no repeat, when it is killed ${ROUNDS} times at random moments`, async () => {
  const directory = temporaryDirectory()
  const random = seededFor("kills of a journal")
  const states = new Map<PromptId, string>()
  let promised = 0
  let acknowledged = 0
  for (let round = 0; round < ROUNDS; round++) {
    const said = await runUntilKilled(directory, runSeed() + round, 1 + Math.floor(random() * 800))
    for (const [what, which] of said) {
      if (what === "event") promised = Math.max(promised, Number(which))
      else if (what === "acknowledged") acknowledged = Math.max(acknowledged, Number(which))
      else states.set(which as PromptId, what)
    }

    const journal = await reopened(join(directory, "journal"))
    expect(journal.last).toBeGreaterThanOrEqual(promised)
    expect(journal.first).toBeLessThanOrEqual(acknowledged + 1)
    expect(await readAll(journal)).toEqual(counted(journal.last, journal.first))
    await journal.close()

    const ledger = await openLedger(join(directory, "ledger"))
    const order = ["accepted", "started", "ended"]
    for (const [prompt, state] of states) {
      const known = order.indexOf(ledger.standing(prompt).state)
      expect(known).toBeGreaterThanOrEqual(order.indexOf(state))
    }
    await ledger.close()
  }
  expect(promised).toBeGreaterThan(ROUNDS)
  expect(states.size).toBeGreaterThan(ROUNDS)
})
