import { HostRequestId, ServerMessage } from "@berth/protocol/bridge"
import { MAX_PROMPT_CHARS, MAX_REASON_CHARS } from "@berth/protocol/bridge-limits"
import { newId } from "@berth/protocol/ids"
import { MAX_NAME_CHARS, MAX_PROMPT_MS, MAX_QUESTION_CHARS } from "@berth/protocol/session-limits"
import { runSeed } from "@berth/testing/seed"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { parseServerMessage } from "./parse.ts"

const prompt = newId.prompt()
const session = newId.session()
const sandbox = newId.sandbox()

const id = HostRequestId.parse(`ask-${prompt.slice(3)}`)
const commit = "0123456789".repeat(4)

const answer = (answer: Extract<ServerMessage, { type: "answer" }>["answer"]): ServerMessage => ({
  type: "answer",
  id,
  answer,
})

const VALID: readonly ServerMessage[] = [
  { type: "hello", generation: 1, sandbox, lastSeen: 0 },
  { type: "hello", generation: -7, sandbox, lastSeen: Number.MAX_SAFE_INTEGER },
  { type: "acknowledge", upTo: 1 },
  { type: "prompt.start", prompt, session, text: "x" },
  { type: "prompt.start", prompt, session, text: "x".repeat(MAX_PROMPT_CHARS) },
  { type: "prompt.start", prompt, session, text: "x", attachments: ["/a/b c", "/"] },
  { type: "prompt.start", prompt, session, text: "x", attachments: [], deadlineMs: 1000 },
  { type: "prompt.start", prompt, session, text: "x", agent: "shell" },
  { type: "prompt.stop", prompt },
  { type: "prompt.answer", prompt, answer: { kind: "permission", ask: "per_1", allow: false } },
  { type: "prompt.answer", prompt, answer: { kind: "question", ask: "que_1", answer: "" } },
  { type: "prompt.answer", prompt, answer: { kind: "question", ask: "que_1", answer: null } },
  answer({ kind: "repo", commit, bundled: true }),
  answer({ kind: "repo", commit: "f".repeat(64), branch: "main", bundled: false }),
  answer({ kind: "repo", commit, bundled: false, url: "https://h/x", absent: "not there" }),
  answer({ kind: "credential", username: "", password: "p" }),
  answer({ kind: "keys", keys: {} }),
  answer({ kind: "keys", keys: { SOME_KEY: "secret", _2: "" } }),
  answer({ kind: "refused", code: "", reason: "x".repeat(MAX_REASON_CHARS) }),
]

/** Values near the limits of valid ones, and far from them. */
const NEAR: readonly unknown[] = [
  ...[0, 1, -1, 1.5, 2 ** 53, Number.MAX_SAFE_INTEGER, "", "x", null, true, [], {}],
  ...[prompt, session, sandbox, `${prompt}x`, prompt.slice(0, -1), prompt.toUpperCase()],
  ...[id, commit, `${commit}0`, commit.toUpperCase(), "repo", "credential", "refused"],
  ...[["/a"], ["a"], ["/a/../b"], ["/a/"], ["/a\0"], Array(17).fill("/a")],
  ...[999, 1000, MAX_PROMPT_MS, MAX_PROMPT_MS + 1],
  ...[{ A: "1" }, { "a-b": "1" }, { A: 1 }, { A: "\0" }],
  ...[MAX_QUESTION_CHARS, MAX_NAME_CHARS, MAX_PROMPT_CHARS, MAX_REASON_CHARS].map((most) =>
    "x".repeat(most + 1),
  ),
  ...["hello", "acknowledge", "__proto__", "toString"],
]
const anything = fc.oneof(fc.constantFrom(...NEAR), fc.jsonValue())

/** A valid message with a key changed, added or removed, in it or in the answer that it carries. */
const changed = fc
  .tuple(
    fc.constantFrom(...VALID),
    fc.boolean(),
    fc.constantFrom("change", "add", "remove"),
    fc.nat(5),
    anything,
  )
  .map(([message, isInside, change, place, value]) => {
    const edit = (object: object) => edited(object, change, place, value)
    if (isInside && (message.type === "answer" || message.type === "prompt.answer"))
      return { ...message, answer: edit(message.answer) }
    return edit(message)
  })

const edited = (object: object, change: string, place: number, value: unknown) => {
  const keys = Object.keys(object)
  const key = change === "add" ? `extra${place}` : (keys[place % keys.length] ?? "")
  const copy: Record<string, unknown> = { ...object }
  if (change === "remove") delete copy[key]
  else copy[key] = value
  return copy
}

const accepts = (text: string): boolean => {
  try {
    parseServerMessage(text)
    return true
  } catch (thrown) {
    expect(thrown).toMatchObject({ code: "bridge.protocol_violated" })
    return false
  }
}

describe("the server's messages", () => {
  it.each(VALID.map((message) => [message.type, message] as const))(
    "are taken: %s",
    (_, message) => {
      expect(parseServerMessage(JSON.stringify(message))).toEqual(message)
    },
  )

  it("are judged exactly as the schema judges them", () => {
    fc.assert(
      fc.property(fc.oneof(changed, changed, fc.jsonValue()), (value) => {
        const text = JSON.stringify(value)
        const { success } = ServerMessage.safeParse(JSON.parse(text))
        expect(accepts(text)).toBe(success)
      }),
      { numRuns: 5000, seed: runSeed() },
    )
  })

  it("are judged exactly as the schema judges them, also near every limit", () => {
    for (const message of VALID)
      for (const key of Object.keys(message))
        for (const value of NEAR) {
          const text = JSON.stringify({ ...message, [key]: value })
          const { success } = ServerMessage.safeParse(JSON.parse(text))
          expect(accepts(text), text.slice(0, 200)).toBe(success)
        }
  })

  it.each(["", "{", "nonsense", "\u0000"])("are refused when they are not JSON: %j", (text) => {
    expect(accepts(text)).toBe(false)
  })
})
