import type { EventBody } from "@berth/protocol/event"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it } from "vitest"
import { TranscriptFold } from "./transcript.ts"

const prompt = newId.prompt()
const other = newId.prompt()

const fold = (...bodies: readonly EventBody[]): TranscriptFold => {
  const transcript = new TranscriptFold()
  for (const body of bodies) transcript.add(body)
  return transcript
}

describe("a transcript", () => {
  it("has each message whole, and calls with what came of them, in their order", () => {
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

  it("keeps prompts apart, though messages have the same name, and notes with what they follow", () => {
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
