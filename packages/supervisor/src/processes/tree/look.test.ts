import { describe, expect, it } from "vitest"
import { type Eyes, findMembers } from "./look.ts"
import type { ProcessEntry } from "./proc.ts"

const SUPERVISOR_PID = 10
const root = { pid: 20, startTicks: 100 }

/** Makes an orphan of the tree, unless `more` says otherwise. */
const entry = (pid: number, more: Partial<ProcessEntry> = {}): ProcessEntry => ({
  pid,
  parentPid: 1,
  groupId: pid,
  sessionId: pid,
  startTicks: 200,
  state: "S",
  isKernel: false,
  ...more,
})

/**
 * One look: the listed processes, those that vanished before they were read, those with the mark, and those gone
 * before their mark was read.
 */
interface Scene {
  readonly entries: readonly ProcessEntry[]
  readonly vanished?: readonly number[]
  readonly marked?: readonly number[]
  readonly gone?: readonly number[]
}

const see = async (...scenes: Scene[]) => {
  let looks = 0
  const now = () => scenes[Math.min(looks, scenes.length) - 1] as Scene
  const eyes: Eyes = {
    list: () => {
      looks++
      const { entries, vanished = [] } = now()
      const pids = new Set([...entries.map(({ pid }) => pid), ...vanished])
      return { entries, pids, unseen: vanished }
    },
    marks: async (pids) => ({
      marked: new Set(now().marked?.filter((pid) => pids.includes(pid))),
      gone: new Set(now().gone),
    }),
  }
  const found = await findMembers(root, eyes, SUPERVISOR_PID)
  return { found: found.map(({ pid }) => pid), looks }
}

const stranger = entry(5, { startTicks: 1 })

describe("findMembers", () => {
  it("returns none after a second look without a find", async () => {
    expect(await see({ entries: [stranger] })).toEqual({ found: [], looks: 2 })
  })

  it("returns the members of the first look that finds any", async () => {
    const scene = { entries: [stranger, entry(30)], marked: [30] }
    expect(await see(scene)).toEqual({ found: [30], looks: 1 })
  })

  it("finds the child of a process that forked and ended while the list was read", async () => {
    const forked = { entries: [stranger], vanished: [30] }
    expect(await see(forked, { entries: [stranger, entry(31)], marked: [31] })).toEqual({
      found: [31],
      looks: 2,
    })
  })

  it("finds the child also when that happens twice, or leaves a zombie", async () => {
    const once = { entries: [stranger], vanished: [30] }
    const twice = { entries: [stranger, entry(31, { state: "Z" })] }
    expect(await see(once, twice, { entries: [stranger, entry(32)], marked: [32] })).toEqual({
      found: [32],
      looks: 3,
    })
  })

  it("finds the child of a process that ended before its mark was read", async () => {
    const ended = { entries: [stranger, entry(30)], gone: [30] }
    const quiet = { entries: [stranger] }
    const child = { entries: [stranger, entry(31)], marked: [31] }
    expect(await see(quiet, ended, child)).toEqual({ found: [31], looks: 3 })
  })

  it("asks again for the mark of a process that could not be read", async () => {
    const held = { entries: [stranger, entry(30)], gone: [30] }
    const read = { entries: [stranger, entry(30)], marked: [30] }
    expect(await see(held, held, read)).toEqual({ found: [30], looks: 3 })
  })

  it("does not look a third time for processes that it knows to have ended", async () => {
    const scene = { entries: [stranger, entry(30, { state: "Z" })], vanished: [31] }
    expect(await see(scene)).toEqual({ found: [], looks: 2 })
  })

  it("gives up after ten looks where processes vanish in each", async () => {
    const restless = Array.from({ length: 99 }, (_, n) => ({
      entries: [stranger],
      vanished: [n + 50],
    }))
    expect(await see(...restless)).toEqual({ found: [], looks: 10 })
  })
})
