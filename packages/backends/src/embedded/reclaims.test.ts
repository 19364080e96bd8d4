import { newId, type SandboxId } from "@berth/protocol/ids"
import { afterEach, beforeEach, expect, it, vi } from "vitest"
import { openReclaims, RECLAIM_AFTER_MS } from "./reclaims.ts"

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const [one, other] = [newId.sandbox(), newId.sandbox()]

const open = () => {
  const begun: SandboxId[] = []
  const ended: SandboxId[] = []
  const reclaims = openReclaims((sandbox, signal) => {
    begun.push(sandbox)
    signal.addEventListener("abort", () => ended.push(sandbox))
    return Promise.reject(new Error("the kernel took nothing"))
  })
  return { reclaims, begun, ended }
}

it("reclaims memory from a sandbox that stays paused, not from one that is halted for a moment", () => {
  const { reclaims, begun } = open()
  reclaims.begin(one)
  reclaims.begin(other)
  vi.advanceTimersByTime(RECLAIM_AFTER_MS - 1)
  reclaims.end(one)
  vi.advanceTimersByTime(RECLAIM_AFTER_MS)
  expect(begun).toEqual([other])
})

it("ends a reclaim with the pause, and every reclaim with the backend", () => {
  const { reclaims, ended } = open()
  reclaims.begin(one)
  reclaims.begin(other)
  vi.advanceTimersByTime(RECLAIM_AFTER_MS)
  reclaims.end(one)
  reclaims.end(one)
  expect(ended).toEqual([one])
  reclaims.close()
  expect(ended).toEqual([one, other])
})
