import { describe, expect, it } from "vitest"
import { type Benchmark, CannotRun } from "./benchmark.ts"
import { conduct } from "./conduct.ts"

const sound: Benchmark<unknown> = {
  what: "two / one",
  unit: "ms",
  bound: { of: "ratio", atMost: 2.5 },
  statistic: "median",
  runs: 7,
  prepare: async () => undefined,
  ours: async () => 2,
  other: async () => 1,
}
const { other: _, ...oneSided } = sound
const never = new AbortController().signal

const run = (changes: Partial<Benchmark<unknown>>, signal = never) =>
  conduct("name", { ...sound, ...changes }, { signal })

describe("conduct", () => {
  it("measures and judges", async () => {
    expect(await run({})).toMatchObject({ ours: 2, other: 1, ratio: 2, holds: true, runs: 7 })
  })

  it("adds the benchmark's note on its fixture to the result's note", async () => {
    const { note } = await run({ prepare: async () => 7, note: (seven) => `copying: ${seven} ms` })
    expect(note).toBe("median of ours / median of other, at most 2.5; copying: 7 ms")
  })

  it.each<[string, Partial<Benchmark<unknown>>, string]>([
    ["a lack of the host", { prepare: lacks }, "cannot run here: no OCI runtime"],
    ["a preparation that fails", { prepare: broken }, "failed: broken"],
    ["a side that fails", { other: broken }, "failed: broken"],
    ["a side that never ends", { ours: hang, deadlineMs: 20 }, "did not end within 20 ms"],
    [
      "a preparation that never ends",
      { prepare: hang, deadlineMs: 20 },
      "did not end within 20 ms",
    ],
    ["too few runs", { runs: 6 }, "6 runs are too few: 7"],
  ])("reports %s in the note", async (_case, changes, note) => {
    expect(await run(changes)).toMatchObject({ ours: null, ratio: null, holds: false, note })
  })

  it("needs the other side for a ratio", async () => {
    expect(await conduct("name", oneSided, { signal: never })).toMatchObject({
      holds: false,
      note: "a bound on the ratio needs the other side",
    })
  })

  it("cleans up after success and after failure, in the reverse order", async () => {
    for (const ours of [sound.ours, broken]) {
      const ended: string[] = []
      const prepare: typeof sound.prepare = async ({ onEnd }) => {
        onEnd(() => ended.push("first"))
        onEnd(async () => ended.push("second"))
      }
      await run({ prepare, ours })
      expect(ended).toEqual(["second", "first"])
    }
  })

  it("goes on cleaning up when one clean-up fails, and says so", async () => {
    const ended: string[] = []
    const prepare: typeof sound.prepare = async ({ onEnd }) => {
      onEnd(() => ended.push("first"))
      onEnd(broken)
    }
    expect(await run({ prepare })).toMatchObject({
      holds: true,
      note: expect.stringContaining("; clean-up failed: broken"),
    })
    expect(ended).toEqual(["first"])
  })

  it("cleans up when it is cancelled, and then throws the reason", async () => {
    const cancel = new AbortController()
    const ended: string[] = []
    const prepare: typeof sound.prepare = async ({ onEnd }) => {
      onEnd(() => ended.push("cleaned"))
    }
    const ours = () => {
      cancel.abort(new Error("enough"))
      return hang()
    }
    await expect(run({ prepare, ours }, cancel.signal)).rejects.toThrow("enough")
    expect(ended).toEqual(["cleaned"])
  })

  it("cleans up after a preparation that ends after it was given up", async () => {
    const late = Promise.withResolvers<void>()
    const cleaned = Promise.withResolvers<void>()
    const prepare: typeof sound.prepare = async ({ onEnd }) => {
      await late.promise
      onEnd(cleaned.resolve)
    }
    await run({ prepare, deadlineMs: 20 })
    late.resolve()
    await cleaned.promise
  })
})

async function lacks(): Promise<never> {
  throw new CannotRun("no OCI runtime")
}

async function broken(): Promise<never> {
  throw new Error("broken")
}

function hang(): Promise<never> {
  return new Promise(() => {})
}
