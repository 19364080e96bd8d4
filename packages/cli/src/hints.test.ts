import { ERRORS } from "@berth/protocol/errors"
import { describe, expect, it } from "vitest"
import { isFlag, missingIn } from "./testing/command-lines.ts"

/** The texts between backticks in the hints of the error table, with the codes of their errors. */
const QUOTED = Object.entries(ERRORS).flatMap(([code, { hint }]) =>
  [...hint.matchAll(/`([^`]*)`/g)].map(([, text = ""]) => ({ code, text })),
)
const NAMED = QUOTED.filter(({ text }) => /^berth [a-z]/.test(text))
const FLAGS = QUOTED.filter(({ text }) => text.startsWith("--"))

describe("the hints of the error table", () => {
  it.each(NAMED)("name a command that exists: $text ($code)", ({ text }) => {
    expect(missingIn(text)).toBeUndefined()
  })

  it.each(FLAGS)("name a flag that some command has: $text ($code)", ({ text }) => {
    const [flag = ""] = text.split(" ")
    expect(isFlag(flag)).toBe(true)
  })

  it("name no route of the API, and no placeholder for a sandbox or a workspace", () => {
    const wrong = Object.entries(ERRORS).filter(([, { hint }]) =>
      /\b(GET|POST|PUT|DELETE) |\/v1\/|\bSANDBOX\b|\bWORKSPACE\b/.test(hint),
    )
    expect(wrong.map(([code]) => code)).toEqual([])
  })
})
