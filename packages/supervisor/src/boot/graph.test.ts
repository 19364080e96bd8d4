import { BerthError } from "@berth/protocol/errors"
import { describe, expect, it } from "vitest"
import { buildGraph } from "./graph.ts"
import type { Step } from "./step.ts"

const step = (name: string, needs: string[] = []): Step<undefined> => ({
  name,
  needs,
  required: true,
  timeoutMs: 1000,
  run: async () => ({ did: "nothing" }),
})

const refusal = (steps: Step<undefined>[]): BerthError => {
  try {
    buildGraph(steps)
  } catch (thrown) {
    if (thrown instanceof BerthError) return thrown
  }
  throw new Error("the graph was accepted")
}

describe("buildGraph", () => {
  it("[R2.1] puts a step after the steps that it needs, and keeps the order of the list otherwise", () => {
    const graph = buildGraph([step("c", ["b"]), step("x"), step("b", ["a"]), step("a")])
    expect(graph.steps.map(({ name }) => name)).toEqual(["a", "b", "c", "x"])
  })

  it("[R2.1] refuses a cycle and names it, without the steps that only lead to it", () => {
    const error = refusal([step("in", ["a"]), step("a", ["b"]), step("b", ["c"]), step("c", ["a"])])
    expect(error.code).toBe("boot.graph_invalid")
    expect(error.message).toContain("a → b → c → a")
    expect(error.details).toEqual({ cycle: ["a", "b", "c", "a"] })
  })

  it("[R2.1] refuses a step that needs itself", () => {
    expect(refusal([step("a", ["a"])]).details).toEqual({ cycle: ["a", "a"] })
  })

  it("[R2.1] refuses a need that does not exist, and two steps of one name", () => {
    expect(refusal([step("a", ["ghost"])]).details).toEqual({ step: "a", need: "ghost" })
    expect(refusal([step("a"), step("a")]).details).toEqual({ step: "a" })
  })

  it.each([0, -1, Number.NaN, Infinity, 2 ** 31])("refuses the time limit %s", (timeoutMs) => {
    expect(refusal([{ ...step("a"), timeoutMs }]).message).toContain("time limit")
  })

  it("refuses names and numbers of steps for which a trace has no room", () => {
    expect(refusal([step("")]).code).toBe("boot.graph_invalid")
    expect(refusal([step("n".repeat(129))]).code).toBe("boot.graph_invalid")
    expect(refusal(Array.from({ length: 65 }, (_, n) => step(`s${n}`))).details).toEqual({
      steps: 65,
    })
  })

  it("orders sixty steps, each of which needs all earlier ones", () => {
    const names = Array.from({ length: 60 }, (_, index) => `step-${index}`)
    const steps = names.map((name, index) => step(name, names.slice(0, index)))
    expect(buildGraph(steps).steps.map(({ name }) => name)).toEqual(names)
  })
})
