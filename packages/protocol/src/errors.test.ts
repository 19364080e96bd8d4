import { describe, expect, it } from "vitest"
import { BerthError, ERRORS, toWireError } from "./errors.ts"

describe("the error table", () => {
  it.each(Object.entries(ERRORS))(
    "%s has a status of a failure and a hint that is a sentence",
    (_, entry) => {
      expect(entry.status).toBeGreaterThanOrEqual(400)
      expect(entry.status).toBeLessThan(600)
      expect(entry.hint).toMatch(/^[A-Z`].*\.$/s)
    },
  )

  it("takes no code that it does not list", () => {
    // @ts-expect-error a code without an entry does not compile
    const error = () => new BerthError("no.such_code", "x").status
    expect(error).toThrow()
  })
})

describe("BerthError", () => {
  it("keeps its cause, and sends its code, message, hint, retry and details", () => {
    const cause = new Error("EACCES")
    const error = new BerthError("store.read_only", "cannot write", {
      details: { path: "/x" },
      cause,
    })
    expect(error.cause).toBe(cause)
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      code: "store.read_only",
      message: "cannot write",
      hint: ERRORS["store.read_only"].hint,
      retry: "never",
      details: { path: "/x" },
    })
  })

  it("sends no text of an unexpected failure", () => {
    expect(JSON.stringify(toWireError(new Error("the token is 123")))).not.toContain("123")
  })
})
