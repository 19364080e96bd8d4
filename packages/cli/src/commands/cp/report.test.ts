import { afterEach, beforeEach, expect, it, vi } from "vitest"
import { CopyReport } from "./report.ts"

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const reporting = (screen: boolean) => {
  const said: string[] = []
  const report = new CopyReport({ err: (text) => said.push(text), isScreen: () => screen })
  return { report, said }
}

it("a copy's report shows its progress after a second, and clears it at the end", () => {
  const { report, said } = reporting(true)
  report.passed(3_000_000)
  report.copied()
  vi.advanceTimersByTime(900)
  expect(said).toEqual([])
  vi.advanceTimersByTime(300)
  expect(said.at(-1)).toBe("\r\u001b[Kcopied 3 MB in 1 files")
  report.leftOut({ path: "pipe", why: "pipe" })
  expect(said.slice(-2)).toEqual(["\r\u001b[K", "skipped pipe: it is a named pipe\n"])
  vi.advanceTimersByTime(200)
  report[Symbol.dispose]()
  expect(said.at(-1)).toBe("\r\u001b[K")
  const before = said.length
  vi.advanceTimersByTime(10_000)
  expect(said).toHaveLength(before)
})

it("a copy's report shows no progress where there is no screen", () => {
  const { report, said } = reporting(false)
  report.copied()
  vi.advanceTimersByTime(10_000)
  report[Symbol.dispose]()
  expect(said).toEqual([])
})
