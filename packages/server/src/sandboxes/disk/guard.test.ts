import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { pino } from "pino"
import { expect, it, onTestFinished } from "vitest"
import type { Allowance } from "./allowance.ts"
import { openGuard } from "./guard.ts"
import { openMeter } from "./meter.ts"
import { NO_RESCUE } from "./rescue.ts"
import { RESPITE_MS } from "./respites.ts"

const MB = 1_000_000
const GB = 1_000 * MB

const workspace = Slug.parse("app")

/** A guard of two sandboxes, whose time, disk and measurements are the test's. */
const openStage = () => {
  const [one, other] = [newId.sandbox(), newId.sandbox()]
  const used = new Map<SandboxId, number>([one, other].map((sandbox) => [sandbox, 0]))
  const stage = { freeBytes: 80 * GB, nowMs: 0, allowance: {} as Allowance, cleared: 0 }
  const clock = { monotonicMs: () => stage.nowMs }
  const log = pino({ level: "silent" })
  const measured = Promise.withResolvers<void>()
  const meter = openMeter({
    clock,
    log,
    remembered: new Map(),
    save: async () => measured.resolve(),
    onMeasured: () => {},
    async *measure(sandboxes) {
      for (const { sandbox } of sandboxes)
        yield { sandbox, used: { bytes: used.get(sandbox) ?? 0, inodes: 1 }, tookMs: 0 }
    },
  })
  const told: string[] = []
  const guard = openGuard({
    copied: () => [],
    dataDir: "/nowhere",
    meter,
    clock,
    log,
    wake: () => {},
    isThere: async () => true,
    rescue: {
      ...NO_RESCUE,
      clear: async () => {
        stage.cleared += 1
      },
    },
    reserve: { left: () => 0, release: () => false, fill: async () => {} },
    list: async () =>
      [...used.keys()].map((sandbox) => ({
        identity: { sandbox, workspace } as never,
        state: "running" as const,
      })),
    bounded: async () =>
      [...used.keys()].map((sandbox) => ({ sandbox, workspace, allowance: stage.allowance })),
    measure: async (sandboxes) =>
      new Map(sandboxes.map(({ sandbox }) => [sandbox, used.get(sandbox) ?? 0])),
    tell: async (_, message) => void told.push(message),
    read: async () => ({
      free: { bytes: stage.freeBytes, inodes: 1e9 },
      size: { bytes: 100 * GB, inodes: 1e9 },
    }),
  })
  onTestFinished(() => guard.close())
  return { stage, used, one, other, guard, told, measured: measured.promise }
}

it("gives a sandbox that fills the disk a respite, and halts it again when that is over", async () => {
  const { stage, used, one, other, guard, told } = openStage()
  used.set(one, 60 * GB).set(other, MB)
  stage.freeBytes = 100 * MB
  await guard.watch()
  expect(guard.held(one)).toContain("the disk is nearly full")
  expect(guard.held(other)).toBeUndefined()

  await guard.relent({ sandbox: one, workspace })
  expect(stage.cleared).toBe(1)
  stage.nowMs = RESPITE_MS - 1
  await guard.look()
  expect(guard.held(one)).toBeUndefined()
  stage.nowMs = RESPITE_MS
  await guard.look()
  expect(guard.held(one)).toContain("the disk is nearly full")

  stage.freeBytes = 10 * GB
  await guard.look()
  expect(guard.isHolding).toBe(false)
  expect(told).toHaveLength(2)
})

it("halts the next writer, though a halted sandbox has taken more", async () => {
  const { stage, used, one, other, guard } = openStage()
  used.set(one, 60 * GB)
  stage.freeBytes = 200 * MB
  await guard.watch()
  used.set(other, 150 * MB)
  stage.freeBytes = 50 * MB
  await guard.look()
  expect([guard.held(one), guard.held(other)]).toEqual([
    expect.stringContaining("fills it"),
    expect.stringContaining("fills it"),
  ])
})

it("halts a sandbox again that grows in its respite, and lets it continue once it has room again", async () => {
  const { stage, used, one, guard, measured } = openStage()
  stage.allowance = { bytes: GB }
  used.set(one, 2 * GB)
  await guard.watch()
  await measured
  await guard.look()
  expect(guard.held(one)).toBe("its files take 2 GB of the 1 GB that limits.diskBytes allows")

  await guard.relent({ sandbox: one, workspace })
  await guard.look()
  expect(guard.held(one)).toBeUndefined()
  used.set(one, 2.1 * GB)
  stage.nowMs += 5_000
  await guard.look()
  await expect.poll(() => guard.look().then(() => guard.held(one))).toContain("2.1 GB")

  stage.allowance = { bytes: 3 * GB }
  await guard.look()
  expect(guard.held(one)).toBeUndefined()
})
