import { getEventListeners } from "node:events"
import { setImmediate } from "node:timers/promises"
import { expect, it, onTestFinished } from "vitest"
import { abortable } from "./abortable.ts"

it("settles like its promise, and leaves nothing on the signal", async () => {
  const { signal } = new AbortController()
  expect(await abortable(Promise.resolve(7), signal)).toBe(7)
  await expect(abortable(Promise.reject(new Error("no")), signal)).rejects.toThrow("no")
  expect(getEventListeners(signal, "abort")).toEqual([])
})

it("rejects with the signal's reason, before and while it waits", async () => {
  const stop = new AbortController()
  const never = new Promise(() => {})
  const waits = abortable(never, stop.signal)
  stop.abort(new Error("stopped"))
  await expect(waits).rejects.toThrow("stopped")
  await expect(abortable(never, stop.signal)).rejects.toThrow("stopped")
})

it("does not leave a failure unhandled that comes after the signal", async () => {
  const unhandled: unknown[] = []
  const note = (reason: unknown) => void unhandled.push(reason)
  process.on("unhandledRejection", note)
  onTestFinished(() => void process.off("unhandledRejection", note))
  const late = Promise.reject(new Error("late"))
  await expect(abortable(late, AbortSignal.abort(new Error("stopped")))).rejects.toThrow("stopped")
  await setImmediate()
  expect(unhandled).toEqual([])
})
