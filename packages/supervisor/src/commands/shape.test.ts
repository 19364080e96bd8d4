import { CommandClientMessage, CommandSignalRequest, CommandStart } from "@berth/protocol/commands"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { clientMessage, commandStart, signalRequest } from "./shape.ts"

const full = {
  command: ["a", "b", ""],
  cwd: "x",
  env: { A: "", "b c": "=" },
  user: "root",
  timeoutMs: 2 ** 31 - 1,
  stdin: true,
}
const VALID = {
  start: [{ command: ["a"] }, full],
  signal: [{ signal: "SIGTERM" }],
  message: [{ type: "stdin.end" }, { type: "signal", signal: "SIGKILL" }],
}

/** Values near the limits of valid ones. */
const ODD: readonly unknown[] = [
  ...[0, 1, -1, 1.5, 2 ** 31, 2 ** 31 - 1, "", "x", "a\0b", null, true, [], {}],
  ...[[""], ["a", "b\0"], ["a", ""], { A: 1 }, { "": "x" }, { "A=": "x" }, { "A\0": "x" }],
  ...[{ A: "\0" }, "root", "agent", "SIGTERM", "SIGFOO", "signal", "stdin.end", "toString"],
]
const anything = fc.oneof(fc.constantFrom(...ODD), fc.jsonValue())

/** A valid value with a key changed, added or removed. */
const changed = (values: readonly object[]) =>
  fc
    .tuple(
      fc.constantFrom(...values),
      fc.constantFrom("change", "add", "remove"),
      fc.nat(9),
      anything,
    )
    .map(([value, how, place, other]) => {
      const keys = Object.keys(value)
      const key = how === "add" ? "other" : (keys[place % keys.length] ?? "")
      const { [key]: _, ...rest } = value as Record<string, unknown>
      return how === "remove" ? rest : { ...rest, [key]: other }
    })

describe("a message about a command", () => {
  it.each([
    ["CommandStart", commandStart, CommandStart, VALID.start],
    ["CommandSignalRequest", signalRequest, CommandSignalRequest, VALID.signal],
    ["CommandClientMessage", clientMessage, CommandClientMessage, VALID.message],
  ] as const)(
    "is accepted exactly where the protocol's schema accepts it: %s",
    (_, check, schema, valid) => {
      const expectSame = (value: unknown) => {
        expect(check(value, "it") === undefined).toBe(schema.safeParse(value).success)
      }
      for (const value of valid) expect(check(value, "it")).toBeUndefined()
      for (const value of valid)
        for (const key of Object.keys(value))
          for (const odd of ODD) expectSame({ ...value, [key]: odd })
      fc.assert(fc.property(fc.oneof(changed(valid), anything), expectSame))
    },
  )
})
