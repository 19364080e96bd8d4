import type { Form } from "@berth/protocol/form"
import { expect, it } from "vitest"
import { problemIn } from "./check.ts"

const flag = { kind: "flag" } as const
const text = { kind: "text" } as const
const capital = { matches: /^[A-Z]/, says: "must be tall" }
const small = { matches: /^[a-z]+$/, says: "must be of small letters" }
const grams: Form = {
  kind: "object",
  required: { grams: { kind: "number", whole: false } },
  optional: {},
}

const PET: Form = {
  kind: "object",
  required: {
    name: { kind: "text", min: 1, max: 5, patterns: [small] },
    age: {
      kind: "number",
      whole: true,
      min: 0,
      max: 30,
      rules: [{ holds: (age: number) => age !== 13, says: "must not be 13" }],
    },
  },
  optional: {
    tags: { kind: "list", element: text, max: 1 },
    food: { kind: "either", forms: [{ kind: "text", min: 1 }, grams] },
    of: { kind: "map", keys: { kind: "text", patterns: [capital] }, values: flag },
  },
}

it.each([
  [{ name: "rex", age: 3 }, undefined],
  [{ age: 3 }, "pet.name is missing"],
  [{ name: "rex", age: 3, wings: 2 }, "pet.wings is unknown"],
  [{ name: "", age: 3 }, "pet.name is too short"],
  [{ name: "reximus", age: 3 }, "pet.name is too long"],
  [{ name: "Rex", age: 3 }, "pet.name must be of small letters"],
  [{ name: "rex", age: 1.5 }, "pet.age is not a whole number"],
  [{ name: "rex", age: 31 }, "pet.age is not from 0 to 30"],
  [{ name: "rex", age: 13 }, "pet.age must not be 13"],
  [{ name: "rex", age: 3, tags: ["a", "b"] }, "pet.tags is too long"],
  [{ name: "rex", age: 3, tags: [1] }, "pet.tags[0] is not text"],
  [{ name: "rex", age: 3, food: "" }, "pet.food is too short"],
  [{ name: "rex", age: 3, food: { grams: "1" } }, "pet.food.grams is not a number"],
  [{ name: "rex", age: 3, food: 1 }, "pet.food has no known form"],
  [{ name: "rex", age: 3, of: { a: true } }, 'pet.of, in the name "a", must be tall'],
  [{ name: "rex", age: 3, of: { A: 1 } }, "pet.of.A is neither true nor false"],
  [[], "pet is not an object"],
])("a check of %j names the place and the problem: %s", (value, problem) => {
  expect(problemIn(PET, value, "pet")).toBe(problem)
})
