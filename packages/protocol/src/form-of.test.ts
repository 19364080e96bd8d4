import { expect, it } from "vitest"
import { z } from "zod"
import { formOf } from "./form-of.ts"

it("has a place for the bounds, patterns and rules of a schema", () => {
  const isOdd = (value: number) => value % 2 === 1
  const schema = z.strictObject({
    name: z.string().max(3).regex(/^a/, "must begin with a"),
    count: z.int().min(1).refine(isOdd, "must be odd").optional(),
    mode: z.enum(["on", "off"]).default("on"),
  })
  expect(formOf(schema)).toEqual({
    kind: "object",
    required: {
      name: { kind: "text", max: 3, patterns: [{ matches: /^a/, says: "must begin with a" }] },
      mode: { kind: "value", values: ["on", "off"] },
    },
    optional: {
      count: {
        kind: "number",
        whole: true,
        min: 1,
        rules: [{ holds: isOdd, says: "must be odd" }],
      },
    },
  })
})

it.each([
  ["a format", z.base64()],
  ["a number above another", z.number().gt(1)],
  ["a multiple", z.number().multipleOf(2)],
  ["further keys", z.object({})],
  ["a transform", z.string().transform(Number)],
  ["a change of the text", z.string().trim()],
  ["a date", z.date()],
])("refuses a schema that has no form: %s", (_, schema) => {
  expect(() => formOf(schema)).toThrow("has no form")
})
