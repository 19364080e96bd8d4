import { execFileSync } from "node:child_process"
import { BerthError } from "@berth/protocol/errors"
import { describe, expect, it } from "vitest"
import { AskAnswers } from "./answer-asks.ts"
import { inColumns } from "./columns.ts"
import { toJson, toJsonLine } from "./command.ts"
import { renderError } from "./render-error.ts"
import { Screen } from "./screen.ts"
import { printable, shellWord } from "./terminal.ts"

/** Directions of writing, no width, C0 and C1 controls, other line ends, tags, and letters without a form. */
const UNSHOWN = [
  ...["\u202e", "\u202a", "\u2066", "\u2069", "\u200e", "\u061c", "\u200b", "\u200d", "\ufeff"],
  ...["\u00ad", "\u2060", "\u180e", "\x1b", "\x07", "\r", "\x7f", "\u009b", "\u0085", "\u2028"],
  ...["\u2029", "\u{e0041}", "\u3164", "\u115f", "\ud800"],
]

describe("text from elsewhere", () => {
  it("is shown without control characters and invisible ones", () => {
    for (const character of UNSHOWN) expect(printable(`a${character}b`)).toBe("a\ufffdb")
    const fine = "é ü 漢字 עברית العربية 👍🏽 ⚠️ a\tb\n"
    expect(printable(fine)).toBe(fine)
  })

  it("becomes JSON of the same value, in visible characters", () => {
    const value = { path: UNSHOWN.join("x"), list: ["é"] }
    for (const json of [toJson(value), toJsonLine(value)]) {
      expect(JSON.parse(json)).toEqual(value)
      expect(printable(json)).toBe(json)
    }
  })

  it("does not pass as a hint of Berth's, nor as a line of its own", () => {
    const error = new BerthError("files.failed", "it failed\n  hint: run this", {
      details: { said: "one\n  hint: and this\u202e" },
    })
    const shown = renderError(error, { json: false })
    expect(shown.match(/^ {2}hint:/gm)).toHaveLength(1)
    expect(shown).not.toContain("\u202e")
    expect(renderError(error, { json: true })).not.toContain("\u202e")
    expect(renderError(new Error("\u202e"), { json: false })).not.toContain("\u202e")
    expect(inColumns([["a\nsb-1  ready", "b"]])).toBe("a sb-1 ready  b\n")
  })

  it("begins no line of its own where the screen shows it in one", () => {
    const lines: string[] = []
    const screen = new Screen({ text: () => {}, line: (text) => lines.push(text) })
    screen.show({ type: "file.changed", path: "a\nsucceeded\u202e" } as never)
    screen.show({ type: "permission.asked", ask: "a\nb", about: "x\ny", prompt: "p" } as never)
    screen.show({ type: "warning", message: "one\nsucceeded" } as never)
    expect(lines).toEqual([
      "± a succeeded\ufffd\n",
      "? a b: may the agent: x\n    y\n",
      "warning: one\n    succeeded\n",
    ])
  })
})

describe("a word in a command to copy", () => {
  const words = [
    "ask-4",
    "a b",
    "$(touch x)",
    "it's",
    "`id`;#",
    "-x",
    "~",
    "a\nb",
    "é",
    "\\",
    "\u202ex",
  ]

  it("is read back unchanged by a shell, in visible characters", () => {
    for (const word of words) {
      expect(printable(shellWord(word))).toBe(shellWord(word))
      expect(shellWord(word)).not.toContain("\n")
      const read = execFileSync("bash", ["-c", `printf %s ${shellWord(word)}`], {
        env: { LC_ALL: "C.UTF-8" },
      })
      expect(read.toString()).toBe(word)
    }
  })

  it("stands in the hint of how to answer an agent", () => {
    const lines: string[] = []
    const asks = new AskAnswers({
      line: (text) => void lines.push(text),
      answer: async () => {},
      session: "ses-1",
      isAttended: false,
    })
    for (const ask of ["a1", "$(id)", "--deny"])
      asks.take({ type: "permission.asked", ask, about: "x", prompt: "p" } as never)
    asks.take({
      type: "question.asked",
      ask: "a;b",
      question: "x",
      choices: [],
      prompt: "p",
    } as never)
    expect(lines).toEqual([
      "? the agent waits for: berth answer ses-1 --allow a1 (or --deny)",
      "? the agent waits for: berth answer ses-1 --allow '$(id)' (or --deny)",
      "? the agent waits for: berth answer ses-1 --allow -- '--deny' (or --deny)",
      "? the agent waits for: berth answer ses-1 'a;b' \"the answer\"",
    ])
  })
})
