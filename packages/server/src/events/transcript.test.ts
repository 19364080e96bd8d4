import type { EventBody } from "@berth/protocol/event"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it } from "vitest"
import { foldLog, MAX_TEXT_CHARS, TranscriptFold } from "./transcript.ts"

const prompt = newId.prompt()
const other = newId.prompt()

const fold = (...bodies: readonly EventBody[]): TranscriptFold => {
  const transcript = new TranscriptFold()
  for (const body of bodies) transcript.add(body)
  return transcript
}

describe("a transcript", () => {
  it("has whole messages, and calls with their outcomes, in order", () => {
    const transcript = fold(
      { type: "message.delta", prompt, message: "a", text: "I " },
      { type: "message.delta", prompt, message: "a", text: "look" },
      { type: "message.completed", prompt, message: "a" },
      { type: "tool.started", prompt, call: "1", tool: "bash", input: "ls" },
      { type: "tool.started", prompt, call: "2", tool: "read" },
      { type: "tool.completed", prompt, call: "1", failed: false, output: "README" },
      { type: "message.delta", prompt, message: "b", text: "Done" },
    )
    expect(transcript.partsOf(prompt)).toEqual([
      { kind: "text", message: "a", text: "I look", isComplete: true },
      ...[
        {
          kind: "tool",
          call: "1",
          tool: "bash",
          input: "ls",
          state: "succeeded",
          output: "README",
        },
      ],
      { kind: "tool", call: "2", tool: "read", state: "running" },
      { kind: "text", message: "b", text: "Done", isComplete: false },
    ])
  })

  it("keeps the messages of prompts apart, and a note with the prompt before it", () => {
    const transcript = fold(
      { type: "message.delta", prompt, message: "m", text: "one" },
      { type: "message.delta", prompt: other, message: "m", text: "two" },
      { type: "warning", message: "low" },
      { type: "error", prompt, code: "agent.failed", message: "no", hint: "" },
      { type: "gap", reason: "lost" },
    )
    expect(transcript.partsOf(prompt)).toMatchObject([
      { text: "one" },
      { kind: "note", level: "error", text: "no (agent.failed)" },
      { kind: "note", level: "gap", text: "lost" },
    ])
    expect(transcript.partsOf(other)).toMatchObject([{ text: "two" }, { level: "warning" }])
    expect(transcript.partsOf(newId.prompt())).toEqual([])
  })
})

it("cuts an endless message at its limit, and notes that once", () => {
  const transcript = new TranscriptFold()
  const text = "x".repeat(MAX_TEXT_CHARS / 4)
  for (let count = 0; count < 10; count++)
    transcript.add({ type: "message.delta", prompt, message: "m", text })
  transcript.add({ type: "message.completed", prompt, message: "m" })
  expect(transcript.partsOf(prompt)).toMatchObject([
    { kind: "text", text: "x".repeat(MAX_TEXT_CHARS), isComplete: true },
    { kind: "note", level: "gap" },
  ])
})

it("lets other work run between the pages of a log", async () => {
  let turns = 0
  let isOver = false
  const takeTurn = () => {
    turns++
    if (!isOver) setImmediate(takeTurn)
  }
  setImmediate(takeTurn)
  const read = async (_: unknown, after: number) => {
    const sequence = after + 1
    const body = { type: "gap", reason: "none" }
    const json = JSON.stringify({ sequence, at: "2026-01-02T03:04:05.678Z", body })
    return [{ sequence, type: "gap", json }]
  }
  await foldLog({ read }, newId.session(), 20)
  isOver = true
  expect(turns).toBeGreaterThanOrEqual(19)
})
