import { describe, expect, it } from "vitest"
import { hiddenOf, leftOf, orphansOf } from "./left.ts"
import type { ProcessEntry } from "./proc.ts"

const FIRST = 1
const SUPERVISOR = 7
const AGENT = 10
const TERMINAL = 11
const SIDECAR = 12

const entry = (pid: number, parentPid: number, more: Partial<ProcessEntry> = {}): ProcessEntry => ({
  pid,
  parentPid,
  groupId: pid,
  sessionId: pid,
  startTicks: pid,
  state: "S",
  isKernel: false,
  ...more,
})

const SANDBOX = [
  entry(FIRST, 0),
  entry(SUPERVISOR, FIRST),
  ...[AGENT, TERMINAL, SIDECAR].map((pid) => entry(pid, SUPERVISOR)),
]
const MARKS = [
  [AGENT, "agent-7-a"],
  [TERMINAL, "terminal-7-b"],
  [SIDECAR, "7-c"],
] as const

const orphans = (...entries: ProcessEntry[]) =>
  orphansOf([...SANDBOX, ...entries], { supervisorPid: SUPERVISOR, firstPid: FIRST })

/** The pids of the left processes. */
const left = (entries: ProcessEntry[], marks: Record<number, string> = {}, boot: number[] = []) =>
  leftOf(orphans(...entries), {
    firstPid: FIRST,
    leaders: new Set([AGENT, TERMINAL, SIDECAR]),
    marks: new Map([
      ...MARKS,
      ...Object.entries(marks).map(([pid, mark]) => [Number(pid), mark] as const),
    ]),
    isOfBoot: ({ pid }) => boot.includes(pid),
  }).map(({ pid }) => pid)

describe("orphans that hid their origin", () => {
  it("have no mark, no marked parent, and no session of a child of the supervisor", () => {
    const hidden = entry(20, FIRST)
    const others = [entry(22, FIRST), entry(23, 22), entry(24, FIRST, { sessionId: TERMINAL })]
    const found = hiddenOf(orphans(hidden, entry(21, 20), entry(25, TERMINAL), ...others), {
      firstPid: FIRST,
      leaders: new Set([AGENT, TERMINAL, SIDECAR]),
      marks: new Map([[22, "7-command"]]),
    })
    expect(found.map(({ pid }) => pid)).toEqual([20, 21])
  })
})

describe("orphans", () => {
  it("hang below the first process, and not below the supervisor", () => {
    const found = orphans(
      ...[entry(20, FIRST), entry(21, 20), entry(22, AGENT), entry(23, 22)],
      // A process that entered from outside: none in the sandbox started it.
      ...[entry(24, 0), entry(25, 24)],
    )
    expect(found.map(({ pid }) => pid)).toEqual([20, 21])
  })

  it("run, and are no threads of the kernel", () => {
    const found = orphans(
      entry(20, FIRST, { state: "Z" }),
      entry(21, FIRST, { isKernel: true }),
      entry(22, FIRST, { state: "D" }),
    )
    expect(found.map(({ pid }) => pid)).toEqual([22])
  })

  it("are searched to an end where reused pids seem to be each other's parents", () => {
    expect(orphans(entry(20, 21), entry(21, 20), entry(22, 22))).toEqual([])
  })
})

describe("a left process", () => {
  it.each(["prompt-7-x", "agent-7-x", "terminal-7-x"])("carries a mark like %s", (mark) => {
    expect(left([entry(20, FIRST)], { 20: mark })).toEqual([20])
  })

  it("carries no mark of a hook, a sidecar or a command", () => {
    expect(left([entry(20, FIRST)], { 20: "7-x" })).toEqual([])
  })

  it.each([
    ["a terminal", TERMINAL, "terminal-7-b"],
    ["a sidecar", SIDECAR, "7-c"],
  ])("is not in the session of %s that runs, marked or not", (_, sessionId, mark) => {
    const inSession = [entry(20, FIRST, { sessionId }), entry(21, FIRST, { sessionId })]
    expect(left(inSession, { 20: mark })).toEqual([])
  })

  it("may be in the session of the agent, which runs its prompts' commands there", () => {
    const sessionId = AGENT
    const inSession = [entry(20, FIRST, { sessionId }), entry(21, FIRST, { sessionId })]
    expect(left(inSession, { 20: "agent-7-a" })).toEqual([20, 21])
  })

  it("without a mark counts like its parent", () => {
    const entries = [entry(20, FIRST), entry(21, 20), entry(30, FIRST), entry(31, 30)]
    expect(left(entries, { 20: "prompt-7-x", 30: "7-x" })).toEqual([20, 21])
    expect(left([entry(20, FIRST), entry(21, 20)], {}, [20])).toEqual([])
  })

  it("may be of unknown origin, unless it is as old as the boot", () => {
    expect(left([entry(20, FIRST), entry(21, FIRST)], {}, [20])).toEqual([21])
  })
})
