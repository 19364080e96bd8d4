import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { membersOf, suspectsOf } from "./members.ts"
import { type ProcessEntry, parseStat } from "./proc.ts"

const entry = (pid: number, parentPid: number, more: Partial<ProcessEntry> = {}): ProcessEntry => ({
  pid,
  parentPid,
  groupId: pid,
  sessionId: pid,
  startTicks: 100,
  state: "S",
  isKernel: false,
  ...more,
})
const SUPERVISOR = entry(10, 1, { startTicks: 1 })
const root = { pid: 20, startTicks: 100 }
const rootEntry = entry(20, 10)
const pidsOf = (entries: ProcessEntry[]) => entries.map(({ pid }) => pid).sort((a, b) => a - b)
const unmarked = () => false

describe("membersOf", () => {
  it("finds descendants, the session, the group, and marked processes with their descendants", () => {
    const entries = [
      ...[SUPERVISOR, rootEntry, entry(21, 20), entry(22, 21, { groupId: 22, sessionId: 22 })],
      ...[entry(30, 1, { sessionId: 20 }), entry(31, 1, { groupId: 20 })],
      ...[entry(40, 1), entry(41, 40), entry(50, 1), entry(60, 10)],
    ]
    const found = membersOf(root, entries, (pid) => pid === 40)
    expect(pidsOf(found)).toEqual([20, 21, 22, 30, 31, 40, 41])
  })

  it("leaves out zombies, and processes older than the root", () => {
    const entries = [
      rootEntry,
      entry(21, 20, { state: "Z" }),
      entry(30, 1, { sessionId: 20, startTicks: 99 }),
    ]
    expect(pidsOf(membersOf(root, entries, unmarked))).toEqual([20])
  })

  it("spares a later process that got the root's pid, with its session", () => {
    const stranger = entry(20, 1, { startTicks: 500 })
    const entries = [stranger, entry(70, 20, { sessionId: 20, groupId: 20, startTicks: 501 })]
    expect(membersOf(root, entries, unmarked)).toEqual([])
  })
})

describe("suspectsOf", () => {
  it("suspects processes that the first process adopted and that are not older than the root, and none below the supervisor", () => {
    const entries = [
      ...[SUPERVISOR, rootEntry, entry(21, 20), entry(60, 10), entry(61, 60)],
      ...[entry(40, 1), entry(41, 40), entry(42, 1, { state: "Z" })],
      ...[entry(50, 1, { startTicks: 99 }), entry(51, 2, { isKernel: true })],
    ]
    expect(pidsOf(suspectsOf(root, entries, SUPERVISOR.pid))).toEqual([40, 41])
  })

  it("suspects no member, whatever the forest", () => {
    const forest = fc.uniqueArray(
      fc.record({
        pid: fc.integer({ min: 2, max: 30 }),
        parentPid: fc.integer({ min: 0, max: 30 }),
        groupId: fc.integer({ min: 1, max: 30 }),
        sessionId: fc.integer({ min: 1, max: 30 }),
        startTicks: fc.integer({ min: 98, max: 102 }),
        state: fc.constantFrom("S", "R", "Z"),
        isKernel: fc.constant(false),
      }),
      { selector: ({ pid }) => pid },
    )
    fc.assert(
      fc.property(
        forest.filter((entries) => isForest(entries)),
        (entries) => {
          const members = new Set(pidsOf(membersOf(root, entries, unmarked)))
          const suspects = pidsOf(suspectsOf(root, entries, SUPERVISOR.pid))
          expect(suspects.filter((pid) => members.has(pid))).toEqual([])
        },
      ),
    )
  })
})

/** Tells whether no process is its own ancestor: a chain of parents longer than the list is a circle. */
const isForest = (entries: readonly ProcessEntry[]): boolean => {
  const parents = new Map(entries.map(({ pid, parentPid }) => [pid, parentPid]))
  return entries.every(({ pid }) => {
    let at: number | undefined = pid
    for (let steps = 0; at !== undefined; steps++) {
      if (steps > entries.length) return false
      at = parents.get(at)
    }
    return true
  })
}

describe("parseStat", () => {
  it("reads past a name with spaces and parentheses", () => {
    const stat = `42 (a) (b c) S 7 40 41 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3`
    expect(parseStat(stat)).toEqual({
      pid: 42,
      parentPid: 7,
      groupId: 40,
      sessionId: 41,
      startTicks: 987654,
      state: "S",
      isKernel: false,
    })
    expect(parseStat("9 (kworker/0:1) I 2 0 0 0 -1 69238880 0").isKernel).toBe(true)
  })
})
