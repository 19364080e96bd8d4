import type { EventBody } from "@berth/protocol/event"
import { newId } from "@berth/protocol/ids"
import { runSeed } from "@berth/testing/seed"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { Redacting } from "./redacting.ts"
import { HIDDEN, Redaction } from "./redaction.ts"

const KEY = "sk-secret-0123456789"
const prompt = newId.prompt()

const delta = (text: string, message = "m"): EventBody => ({
  type: "message.delta",
  prompt,
  message,
  text,
})

/** The events that are passed on of these, up to the end of the prompt. */
const saidOf = async (keys: readonly string[], ...bodies: readonly EventBody[]) => {
  const said: EventBody[] = []
  const redacting = new Redacting(new Redaction(keys), async (body) => {
    said.push(body)
  })
  for (const body of bodies) await redacting.say(body)
  await redacting.end()
  return said
}

const textOf = (said: readonly EventBody[]) =>
  said.map((body) => (body.type === "message.delta" ? body.text : "")).join("")

describe("keys in an agent's events", () => {
  it("are hidden in texts, outputs and plans", async () => {
    const said = await saidOf(
      [KEY],
      delta(`it is ${KEY}!`),
      { type: "tool.completed", prompt, call: "c", failed: false, output: `a ${KEY} b ${KEY}` },
      { type: "todo.updated", prompt, todos: [{ text: KEY, state: "done" }] },
    )
    expect(said).toMatchObject([
      { text: `it is ${HIDDEN}!` },
      { output: `a ${HIDDEN} b ${HIDDEN}` },
      { todos: [{ text: HIDDEN }] },
    ])
  })

  it("are hidden however deltas cut them, and no other text is lost", async () => {
    const keys = [KEY, `${KEY}-and-more`, "aXaXaXaXb", 'quoted"key"here']
    const piece = fc.oneof(
      fc.constantFrom(...keys, "sk-", "aXaX", "s", "a", 'quoted"', " "),
      fc.string({ maxLength: 3 }),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(piece), fc.array(fc.nat(6)), async (pieces, cuts) => {
        const text = pieces.join("")
        const deltas: EventBody[] = []
        let from = 0
        for (const length of [...cuts, text.length]) {
          if (from < text.length) deltas.push(delta(text.slice(from, from + length)))
          from += length
        }
        const said = textOf(await saidOf(keys, ...deltas))
        expect(said).toBe(new Redaction(keys).of(text))
        expect(keys.filter((key) => said.includes(key))).toEqual([])
      }),
      { numRuns: 2000, seed: runSeed() },
    )
  })

  it("hold a text up only until its message ends, or a tool is called", async () => {
    const end: EventBody = { type: "message.completed", prompt, message: "m" }
    const call: EventBody = { type: "tool.started", prompt, call: "c", tool: "t" }
    expect(await saidOf([KEY], delta("it is sk-"), end)).toEqual([
      ...[delta("it is "), delta("sk-"), end],
    ])
    expect(await saidOf([KEY], delta("it is s"), call)).toEqual([
      ...[delta("it is "), delta("s"), call],
    ])
    expect(await saidOf([KEY], delta("sk-", "m"), delta("secret", "n"))).toEqual([
      ...[delta("secret", "n"), delta("sk-", "m")],
    ])
  })

  it("are hidden where a text was cut off in the middle of a key", () => {
    expect(new Redaction([KEY]).of(`output ${KEY.slice(0, 12)}`)).toBe(`output ${HIDDEN}`)
    expect(new Redaction([KEY]).of("output sk-")).toBe("output sk-")
  })

  it("are hidden in JSON's escapes, too, and hiding never makes a text longer", () => {
    const key = 'a"b\\c\nd-and-so-on'
    const redaction = new Redaction([key, "12345678"])
    expect(redaction.of(JSON.stringify({ key }))).toBe(`{"key":"${HIDDEN}"}`)
    expect(redaction.of("12345678".repeat(3))).toHaveLength(24)
  })

  it("are not looked for when they are too short to be told from words", async () => {
    expect(textOf(await saidOf(["short"], delta("a short text, shor"), delta("t")))).toBe(
      "a short text, short",
    )
  })
})
