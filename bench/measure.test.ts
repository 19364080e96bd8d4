import { describe, expect, it } from "vitest"
import { abortable, measure } from "./measure.ts"

const signal = new AbortController().signal

/** Two sides that note the order in which they run. */
function sides() {
  const order: string[] = []
  let ours = 0
  let other = 100
  return {
    order,
    ours: async () => {
      order.push("ours")
      return ours++
    },
    other: async () => {
      order.push("other")
      return other++
    },
  }
}

describe("measure", () => {
  it("runs the sides in turn, each first in every second run", async () => {
    const { order, ...both } = sides()
    await measure({ ...both, runs: 4 }, undefined, { signal })
    expect(order.slice(2).join(" ")).toBe("ours other other ours ours other other ours")
  })

  it("does not count the first run of each side", async () => {
    const { order, ...both } = sides()
    const measured = await measure({ ...both, runs: 3 }, undefined, { signal })
    expect(order).toHaveLength(8)
    expect(measured).toEqual({ ours: [1, 2, 3], other: [101, 102, 103] })
  })

  it("takes several samples from one run", async () => {
    const ours = async () => [1, 2, 3]
    expect(await measure({ ours, runs: 2 }, undefined, { signal })).toEqual({
      ours: [1, 2, 3, 1, 2, 3],
      other: [],
    })
  })

  it("gives both sides the fixture, and reports each run", async () => {
    const given: unknown[] = []
    const side = async (fixture: string) => given.push(fixture)
    const runs: number[] = []
    const onRun = (run: number) => runs.push(run)
    await measure({ ours: side, other: side, runs: 2 }, "fixture", { signal, onRun })
    expect(given).toEqual(Array(6).fill("fixture"))
    expect(runs).toEqual([1, 2])
  })

  it("ends with the first failure of a side", async () => {
    const ours = () => Promise.reject(new Error("broken"))
    await expect(measure({ ours, runs: 7 }, undefined, { signal })).rejects.toThrow("broken")
  })
})

describe("abortable", () => {
  it("gives up on work that does not look at the signal", async () => {
    const controller = new AbortController()
    const given = abortable(new Promise(() => {}), controller.signal)
    controller.abort(new Error("enough"))
    await expect(given).rejects.toThrow("enough")
  })

  it("gives up at once when the signal was aborted before", async () => {
    const aborted = AbortSignal.abort(new Error("enough"))
    await expect(abortable(new Promise(() => {}), aborted)).rejects.toThrow("enough")
  })

  it("leaves no listener on the signal", async () => {
    const controller = new AbortController()
    const removed: string[] = []
    controller.signal.removeEventListener = (type: string) => void removed.push(type)
    await abortable(Promise.resolve(1), controller.signal)
    await Promise.resolve()
    expect(removed).toEqual(["abort"])
  })
})
