import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { readdirSync } from "node:fs"
import { setTimeout as pause } from "node:timers/promises"
import { isRunning, readStat } from "@berth/host/process-stat"
import { newId } from "@berth/protocol/ids"
import {
  MARK_VARIABLE,
  MARKS_OF_AGENT,
  markOf,
  marksOfPrompt,
  type Origin,
} from "@berth/protocol/process-mark"
import { ENDLESS, environmentOf, ONE_VARIABLE, withEnvironment } from "@berth/testing/environments"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { openEndProcesses } from "./end-processes.ts"

const never = new AbortController().signal
const prompt = newId.prompt()

/** A user without rights. */
const NOBODY = 65_534

/** The processes of a test, as a sandbox has them. */
class Inside {
  readonly #variable = `BERTH_TEST_INSIDE=${randomUUID()}`
  readonly #leaders = new Set<number>()

  /** Starts a script as its supervisor would, and resolves with the pids that it prints. */
  async start(
    origin: Origin | undefined,
    script: string,
    of = newId.prompt(),
    start = "7-abc",
  ): Promise<number[]> {
    const mark = markOf(start, origin, origin === "prompt" ? of : undefined)
    const [name = "", value] = this.#variable.split("=")
    const child = spawn("/bin/sh", ["-c", `${script}; echo .; while :; do sleep 1000; done`], {
      env: { PATH: process.env.PATH, [name]: value, [MARK_VARIABLE]: mark },
      stdio: ["ignore", "pipe", "ignore"],
      detached: true,
    })
    const leader = child.pid as number
    this.#leaders.add(leader)
    let said = ""
    for await (const chunk of child.stdout) {
      said += chunk
      if (said.endsWith(".\n")) break
    }
    return [leader, ...said.split("\n").flatMap((line) => Number(line) || [])]
  }

  readonly list = async (): Promise<number[]> =>
    readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .filter((pid) => this.#has(pid))

  #has(pid: number): boolean {
    const entry = readStat(pid)
    if (entry === undefined || !isRunning(entry)) return false
    if (this.#leaders.has(entry.sessionId)) return true
    try {
      return environmentOf(pid).includes(this.#variable)
    } catch {
      return false
    }
  }
}

let inside: Inside
beforeEach(() => {
  inside = new Inside()
})
afterEach(async () => {
  for (const pid of await inside.list()) process.kill(pid, "SIGKILL")
})

const end = (marks: string) =>
  openEndProcesses(async () => inside.list)({ sandbox: newId.sandbox(), marks, signal: never })

describe("[R3.3] ending the processes of a prompt from outside", () => {
  it.each([
    ["a shell", "true"],
    ["a child", "sleep 1000 & echo $!"],
    ["a child without an environment", "env -i sleep 1000 & echo $!"],
    ["a process outside of the session, whose parent has ended", "(setsid sleep 1000 & echo $!)"],
    ["a process without an environment, whose parent has ended", "(env -i sleep 1000 & echo $!)"],
    ["a stopped process", "sleep 1000 & echo $!; kill -STOP $!"],
    ["a process that ignores signals", "(trap '' TERM INT HUP; sleep 1000) & echo $!"],
    [
      "a process that forks all the time",
      "(while :; do (sleep 1000 &); sleep 0.01; done) & echo $!",
    ],
  ])("kills %s", async (_, script) => {
    const pids = await inside.start("prompt", script, prompt)
    expect(await end(marksOfPrompt(prompt))).toBeGreaterThanOrEqual(pids.length)
    await expect.poll(() => inside.list()).toEqual([])
  })

  it("kills an agent with all that came from it", async () => {
    const pids = await inside.start("agent", "(setsid sleep 1000 & echo $!)")
    expect(await end(MARKS_OF_AGENT)).toBeGreaterThanOrEqual(pids.length)
    await expect.poll(() => inside.list()).toEqual([])
  })

  it.each([
    ["a prompt", marksOfPrompt(prompt), ["prompt", "agent", "terminal", undefined]],
    ["an agent", MARKS_OF_AGENT, ["prompt", "terminal", undefined]],
  ] as const)(
    "leaves the processes of others, when it kills those of %s",
    async (_, marks, origins) => {
      const others: number[] = []
      for (const origin of origins)
        others.push(...(await inside.start(origin, "(setsid sleep 1000 & echo $!)")))
      expect(await end(marks)).toBe(0)
      expect(await inside.list()).toEqual(expect.arrayContaining(others))
    },
  )
})

it("[R3.3] kills only what the caller means among the marks of the form", async () => {
  const meant = await inside.start("prompt", "sleep 1000 & echo $!", prompt, "7-one")
  const other = await inside.start("prompt", "sleep 1000 & echo $!", prompt, "7-two")
  const endProcesses = openEndProcesses(async () => inside.list)
  await endProcesses({
    sandbox: newId.sandbox(),
    marks: marksOfPrompt(prompt),
    isMeant: (mark) => mark.includes("one"),
    signal: never,
  })
  const left = await inside.list()
  expect(left).toEqual(expect.arrayContaining(other))
  expect(meant.filter((pid) => left.includes(pid))).toEqual([])
})

it("[R3.3] spares an agent that its supervisor starts again meanwhile", async () => {
  const before = await inside.start("agent", "sleep 1000 & echo $!")
  let next: number[] | undefined
  const list = async () => {
    const pids = await inside.list()
    // The kernel counts start times in hundredths of a second.
    if (next === undefined) await pause(20)
    next ??= await inside.start("agent", "sleep 1000 & echo $!", undefined, "7-abd")
    return pids
  }
  const endProcesses = openEndProcesses(async () => list)
  const which = { sandbox: newId.sandbox(), marks: MARKS_OF_AGENT, signal: never }
  expect(await endProcesses(which)).toBeGreaterThanOrEqual(before.length)
  const left = await inside.list()
  expect(left).toEqual(expect.arrayContaining(next ?? []))
  expect(before.filter((pid) => left.includes(pid))).toEqual([])
})

describe.skipIf(process.arch !== "x64")(
  "[R3.3] a process inside that keeps its reader busy",
  () => {
    it.each([
      ["without end", ENDLESS],
      ["with a variable that is larger than the reader's memory", ONE_VARIABLE],
    ])("hides no other process (%s)", async (_, memory) => {
      const [hostile = 0] = await inside.start(undefined, withEnvironment(memory))
      const pids = await inside.start("prompt", "(setsid sleep 1000 & echo $!)", prompt)
      expect(await end(marksOfPrompt(prompt))).toBeGreaterThanOrEqual(pids.length)
      expect(await inside.list()).toEqual([hostile])
    })

    it("is no proof that nothing runs", async () => {
      await inside.start(undefined, withEnvironment(ENDLESS))
      await expect(end(marksOfPrompt(prompt))).rejects.toThrow("cannot be read")
    })
  },
)

it("[R3.3] does not say that nothing runs where the server's user may not read the processes", async () => {
  await inside.start("prompt", "true", prompt)
  process.seteuid?.(NOBODY)
  try {
    expect(await end(marksOfPrompt(prompt))).toBeUndefined()
  } finally {
    process.seteuid?.(0)
  }
})

it("[R3.3] kills nothing where the sandbox's processes are not on this host", async () => {
  const endProcesses = openEndProcesses(async () => undefined)
  const which = { sandbox: newId.sandbox(), marks: MARKS_OF_AGENT, signal: never }
  expect(await endProcesses(which)).toBeUndefined()
})
