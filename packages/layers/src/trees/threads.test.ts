import { expect, it, onTestFinished, vi } from "vitest"
import { openThreads } from "./threads.ts"

it("a thread that has been idle for too long is not taken while it ends", async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const threads = openThreads()
  const first = threads.take()
  threads.giveBack(first)
  await vi.runAllTimersAsync()
  const second = threads.take()
  expect(second).not.toBe(first)
  threads.giveBack(second)
  expect(threads.take()).toBe(second)
  await second.terminate()
})
