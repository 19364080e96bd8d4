import type { FoundCache } from "@berth/backends/backend"
import type { Lack, ShortageLevel } from "@berth/host/shortage"
import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest"
import { createLogger } from "../../logging/logger.ts"
import { Secrets } from "../../logging/secrets.ts"
import { Transients } from "../state/transients.ts"
import { openPressure, type PressureParts, RELIEVE_EVERY_MS } from "./pressure.ts"

const [a, b, c] = [newId.sandbox(), newId.sandbox(), newId.sandbox()]
const DISK: Lack = { of: "disk", words: "the disk has 3 MB left" }
const MEMORY: Lack = { of: "memory", words: "the host has 3 MB of memory left" }

const cache = (
  workspace: string,
  name: FoundCache["cache"],
  usedAt: string | null,
): FoundCache => ({
  workspace: Slug.parse(workspace),
  cache: name,
  usedAt,
  directory: null,
})

interface Setting {
  /** The finding of each look; the last one is found again from then on. */
  readonly finds?: (Lack | undefined | Error)[]
  readonly held?: readonly SandboxId[]
  /** The sandboxes whose workers fail, or find them in use. */
  readonly failing?: readonly SandboxId[]
  readonly kept?: readonly SandboxId[]
  readonly caches?: readonly FoundCache[]
}

/** Plays a host with three sandboxes, of which `b` has been unused for longest, then `a`. */
const open = async ({
  finds = [DISK],
  held = [],
  failing = [],
  kept = [],
  caches = [],
}: Setting) => {
  const done: string[] = []
  const lines: string[] = []
  const looks: ShortageLevel[] = []
  const left = [...finds]
  const gone = new Set<SandboxId>()
  const transients = new Transients()
  const names = new Map([a, b, c].map((id, place) => [id, `sandbox ${"abc"[place]}`]))
  const row = (id: SandboxId) => ({
    id,
    workspace: Slug.parse(`live-${[a, b, c].indexOf(id)}`),
    phase: "ready",
  })
  const parts = {
    shortage: async (level: ShortageLevel) => {
      looks.push(level)
      const found = left.length > 1 ? left.shift() : left[0]
      if (found instanceof Error) throw found
      return found
    },
    rows: {
      list: async () => [a, b, c].filter((id) => !gone.has(id)).map(row),
      get: async (id: SandboxId) => (gone.has(id) ? { ...row(id), phase: "gone" } : row(id)),
    },
    leases: { all: async () => new Map(held.map((id) => [id, [{}]])) },
    idle: { ms: (id: SandboxId) => ({ [a]: 20, [b]: 30, [c]: 10 })[id] ?? 0 },
    workers: {
      settle: async (id: SandboxId) => {
        if (failing.includes(id)) return { failure: new Error("the engine is away") }
        if (kept.includes(id)) return {}
        done.push(`${names.get(id)}: ${transients.get(id).pressure}`)
        gone.add(id)
        return {}
      },
    },
    backend: {
      listCaches: async () => caches,
      removeCache: async (workspace: Slug, name: string) => {
        done.push(`cache ${workspace}/${name}`)
        return true
      },
    },
    layers: {
      collect: async () => {
        done.push("layers")
        return { layers: [], tops: [] }
      },
    },
    log: await createLogger({
      level: "debug",
      pretty: false,
      secrets: new Secrets(),
      destination: { write: (line: string) => void lines.push(line) },
    }),
    transients,
  } as unknown as PressureParts
  const pressure = openPressure(parts)
  return {
    pressure,
    done,
    looks,
    isAsked: () => [a, b, c].some((id) => transients.get(id).pressure !== undefined),
    said: () => lines.map((line) => JSON.parse(line).msg),
  }
}

const stopped = (name: string, { words }: Lack = DISK) => `sandbox ${name}: ${words}`

describe("the relief of a host that runs low", () => {
  it("stops unused sandboxes, longest unused first, and looks again after each", async () => {
    const { pressure, done, looks, isAsked, said } = await open({
      finds: [DISK, DISK, undefined],
    })
    await pressure.relieve()
    expect(done).toEqual([stopped("b"), stopped("a")])
    expect(looks).toEqual(["low", "low", "low"])
    expect(isAsked()).toBe(false)
    expect(said()).toEqual([
      `${DISK.words}: ${b} is stopped, which nobody uses`,
      `${DISK.words}: ${a} is stopped, which nobody uses`,
    ])
  })

  it("does nothing while there is enough", async () => {
    const { pressure, done } = await open({ finds: [undefined] })
    await pressure.relieve()
    expect(done).toEqual([])
  })

  it("passes over a sandbox in use, and over one that cannot be stopped", async () => {
    const setting = { held: [b], failing: [a], finds: [DISK, undefined] }
    const { pressure, done, isAsked } = await open(setting)
    await pressure.relieve()
    expect(done).toEqual([stopped("c")])
    expect(isAsked()).toBe(false)
  })

  it("stops another sandbox in place of one that came into use meanwhile", async () => {
    const { pressure, done, looks } = await open({ kept: [b], finds: [DISK, undefined] })
    await pressure.relieve()
    expect(done).toEqual([stopped("a")])
    expect(looks).toHaveLength(2)
  })

  it("removes caches that no sandbox has, longest unused first, then layers, where all are in use", async () => {
    const caches = [
      cache("old", "npm", "2026-01-02"),
      cache("old", "pip", "2026-01-01"),
      cache("older", "go", null),
      cache("live-1", "go", "2025-01-01"),
    ]
    const { pressure, done, said } = await open({ held: [a, b, c], caches })
    await pressure.relieve()
    await pressure.relieve()
    const once = ["cache older/go", "cache old/pip", "cache old/npm", "layers"]
    expect(done).toEqual([...once, ...once])
    // A hopeless lack is logged once.
    expect(said().filter((line) => line.includes("nothing is unused"))).toHaveLength(1)
  })

  it("keeps caches and layers when memory is short", async () => {
    const { pressure, done } = await open({
      finds: [MEMORY],
      held: [a, b],
      caches: [cache("old", "npm", "2026-01-01")],
    })
    await pressure.relieve()
    expect(done).toEqual([stopped("c", MEMORY)])
  })

  it("looks at the host at each interval until it is closed", async () => {
    const { pressure, looks } = await open({ finds: [undefined] })
    pressure.watch()
    await vi.advanceTimersByTimeAsync(3 * RELIEVE_EVERY_MS)
    expect(looks).toEqual(["low", "low", "low"])
    await pressure.close()
    await vi.advanceTimersByTimeAsync(3 * RELIEVE_EVERY_MS)
    expect(looks).toHaveLength(3)
  })
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())
})

describe("a new sandbox", () => {
  it("is admitted where there is room", async () => {
    const { pressure, looks } = await open({ finds: [undefined] })
    await pressure.admit()
    expect(looks).toEqual(["out"])
  })

  it("is admitted when room could be made", async () => {
    const { pressure, done } = await open({ finds: [DISK, DISK, undefined] })
    await pressure.admit()
    expect(done).toEqual([stopped("b")])
  })

  it("is refused to three callers at once, after one attempt to make room", async () => {
    const { pressure, done } = await open({ held: [a, b, c] })
    const refused = { code: "host.exhausted", message: expect.stringContaining(DISK.words) }
    await Promise.all([1, 2, 3].map(() => expect(pressure.admit()).rejects.toMatchObject(refused)))
    expect(done).toEqual(["layers"])
  })

  it("is admitted where the room cannot be read, which is logged", async () => {
    const { pressure, said } = await open({ finds: [new Error("the disk does not answer")] })
    await pressure.admit()
    expect(said()).toEqual(["what is left of the host cannot be read"])
  })
})
