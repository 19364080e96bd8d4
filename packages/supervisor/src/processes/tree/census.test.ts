import fc from "fast-check"
import { expect, it } from "vitest"
import { Census } from "./census.ts"
import { membersOf, suspectsOf } from "./members.ts"
import type { ProcessEntry } from "./proc.ts"

const SUPERVISOR = 2

/** The kernel's acts: forks, new sessions, and ends after which the first process adopts the children. */
const history = fc.array(
  fc.record({
    what: fc.constantFrom("fork", "fork", "setsid", "end", "vanish"),
    who: fc.nat(1000),
  }),
  { maxLength: 60 },
)

const play = (steps: readonly { what: string; who: number }[]) => {
  const entry = (pid: number, parentPid: number, sessionId: number): ProcessEntry => ({
    pid,
    parentPid,
    groupId: sessionId,
    sessionId,
    startTicks: pid,
    state: "S",
    isKernel: false,
  })
  const all = new Map([1, SUPERVISOR].map((pid) => [pid, entry(pid, pid - 1, pid)]))
  const unseen: number[] = []
  let next = SUPERVISOR + 1
  for (const { what, who } of steps) {
    const at = [...all.values()][who % all.size] as ProcessEntry
    if (what === "fork") {
      // Every child of the supervisor leads a session of its own.
      all.set(next, entry(next, at.pid, at.pid === SUPERVISOR ? next : at.sessionId))
      next++
    } else if (at.pid > SUPERVISOR && what === "setsid") {
      all.set(at.pid, { ...at, sessionId: at.pid, groupId: at.pid })
    } else if (at.pid > SUPERVISOR && what !== "fork") {
      all.delete(at.pid)
      if (what === "vanish") unseen.push(at.pid)
      for (const child of all.values())
        if (child.parentPid === at.pid) all.set(child.pid, { ...child, parentPid: 1 })
    }
  }
  const entries = [...all.values()]
  const pids = new Set([...entries.map(({ pid }) => pid), ...unseen])
  return { list: { entries, pids, unseen }, next }
}

it("[R2.14] a census gives each tree the members and suspects that the list of all processes gives", () => {
  fc.assert(
    fc.property(history, (steps) => {
      const { list, next } = play(steps)
      const { entries } = list
      const census = new Census(list, SUPERVISOR)
      const children = entries.filter(({ parentPid }) => parentPid === SUPERVISOR)
      const roots = [...children, { pid: 3, startTicks: 3 }, { pid: next, startTicks: next }]
      for (const { pid, startTicks } of roots) {
        const root = { pid, startTicks }
        const part = census.of(root)
        const pidsOf = (found: readonly ProcessEntry[]) => found.map((each) => each.pid).sort()
        const none = () => false
        expect(pidsOf(membersOf(root, part.entries, none))).toEqual(
          pidsOf(membersOf(root, entries, none)),
        )
        expect(pidsOf(suspectsOf(root, part.entries, SUPERVISOR))).toEqual(
          pidsOf(suspectsOf(root, entries, SUPERVISOR)),
        )
      }
    }),
  )
})

it("a census gives all trees the same pids, of which there may be thousands", () => {
  const { list } = play([])
  const census = new Census(list, SUPERVISOR)
  const [one, other] = [3, 4].map((pid) => census.of({ pid, startTicks: pid }))
  expect(one?.pids).toBe(other?.pids)
  expect(one?.unseen).toBe(other?.unseen)
})
