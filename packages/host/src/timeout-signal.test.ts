import { globSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { queryObjects } from "node:v8"
import { expect, it } from "vitest"
import { timeoutSignal } from "./timeout-signal.ts"

const SIGNALS = 500
const SOON_MS = 50

const counted = (): number => queryObjects(AbortSignal, { format: "count" })

/** Makes signals as calls do: one with a deadline, and others of that. */
const makeSignals = (timeout: (ms: number) => AbortSignal): void => {
  const { signal } = new AbortController()
  for (let made = 0; made < SIGNALS; made++) {
    const inTime = AbortSignal.any([signal, timeout(SOON_MS)])
    const either = AbortSignal.any([inTime, signal])
    const listener = () => {}
    either.addEventListener("abort", listener)
    either.removeEventListener("abort", listener)
  }
}

it("a signal that fires after a time leaves nothing in memory, and nor do the signals that are made of it", async () => {
  const before = counted()
  makeSignals(timeoutSignal)
  await pause(4 * SOON_MS)
  await expect.poll(() => counted() - before).toBeLessThan(SIGNALS / 10)
})

it("a signal fires after its time, as AbortSignal.timeout does", async () => {
  const signal = timeoutSignal(1)
  await expect.poll(() => signal.aborted).toBe(true)
  expect(signal.reason).toMatchObject({ name: "TimeoutError" })
})

it("the server has no other signals that fire after a time", () => {
  const root = join(import.meta.dirname, "..")
  const files = globSync("**/*.ts", { cwd: root }).filter(
    (file) => !file.endsWith(".test.ts") && !file.includes("testing/"),
  )
  const uses = files.filter((file) =>
    readFileSync(join(root, file), "utf8").includes("AbortSignal.timeout("),
  )
  expect(uses).toEqual([])
})
