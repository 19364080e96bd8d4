import { describe, expect, it } from "vitest"
import { Event, EventBody } from "./event.ts"
import { newId } from "./ids.ts"

const warning = {
  sequence: 1,
  at: "2026-01-02T03:04:05.678Z",
  body: { type: "warning", message: "low" },
}

describe("Event", () => {
  it("has a number, a time and a body of a known type", () => {
    expect(Event.parse(warning)).toEqual(warning)
  })

  it.each([0, -1, 1.5, "1", Number.NaN, 2 ** 60])("refuses the number %s", (sequence) => {
    expect(Event.safeParse({ ...warning, sequence }).success).toBe(false)
  })

  it.each([
    ["an unknown type", { type: "prompt.exploded" }],
    ["a field too many", { type: "warning", message: "low", extra: 1 }],
    ["another kind of id", { type: "message.completed", prompt: newId.session(), message: "m" }],
  ])("refuses %s", (_, body) => {
    expect(EventBody.safeParse(body).success).toBe(false)
  })
})
