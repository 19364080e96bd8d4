import { expect, it } from "vitest"
import { explain } from "./usable-model.ts"

const REFUSED = "Cannot connect to API: Was there a typo in the url or port?"

it.each([
  [
    { providerID: "some", modelID: "best" },
    `OpenCode cannot reach the model some/best (${REFUSED}): the sandbox needs a network that leads to its provider`,
  ],
  [
    undefined,
    `OpenCode cannot reach its model (${REFUSED}). No model was named: pass --model PROVIDER/MODEL, and the key of its provider with --key NAME`,
  ],
])("explains an unreachable model, and how to reach it: %j", (model, words) => {
  expect(explain(REFUSED, model)).toBe(words)
})

it("leaves the provider's own words as they are", () => {
  expect(explain("out of credit", undefined)).toBe("out of credit")
})
