import { newId } from "@berth/protocol/ids"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { DEADLINES_MS } from "../backend.ts"
import type { Engine } from "./engine/engine.ts"
import { containerName, sandboxLabels } from "./engine/names.ts"
import { openFinder } from "./finder.ts"
import type { EngineInfo } from "./info.ts"
import type { Parts } from "./parts.ts"
import { specFor } from "./testing/spec.ts"

const installation = newId.installation()
const { signal } = new AbortController()

const finderOn = (read: Engine["read"]) => {
  const info = () => ({ limits: {} }) as EngineInfo
  return openFinder({ installation, info, engine: { read } as Engine } as Parts)
}

/** Sandboxes enough that one list is asked for instead of each. */
const specs = () =>
  Array.from({ length: 4 }, () => specFor({ installation, system: { kind: "host" } }))

describe("sandboxes that are looked for at the same time", () => {
  it("are found in a list that has only the needed fields of each", async () => {
    const all = specs()
    const containers = all.map((spec) => ({
      Id: "a".repeat(64),
      State: "running",
      Names: [`/${containerName(spec.identity.sandbox)}`],
      Labels: sandboxLabels(spec, new Date(0).toISOString()),
    }))
    // A container that is half made or half removed has no names.
    const nameless = { Id: "b".repeat(64), State: "dead", Names: null, Labels: null }
    const { find } = finderOn(async (_, schema) => schema.parse([...containers, nameless]))
    const found = await Promise.all(all.map(({ identity }) => find(identity.sandbox, signal)))
    expect(found.map((seen) => seen?.identity)).toEqual(all.map(({ identity }) => identity))
  })

  it("[R1.14] fail with a typed error when the list takes too long, also for callers with more time", async () => {
    vi.useFakeTimers()
    onTestFinished(() => void vi.useRealTimers())
    const { find } = finderOn(
      (_, __, within) =>
        new Promise((_resolve, reject) => {
          within.addEventListener("abort", () => reject(within.reason))
        }),
    )
    const finding = Promise.allSettled(
      specs().map(({ identity }) => find(identity.sandbox, signal)),
    )
    await vi.advanceTimersByTimeAsync(DEADLINES_MS.list + 1_000)
    for (const each of await finding)
      expect(each).toMatchObject({ status: "rejected", reason: { code: "deadline.exceeded" } })
  })
})
