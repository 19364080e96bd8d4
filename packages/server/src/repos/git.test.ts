import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it, onTestFinished } from "vitest"
import { type GitCall, git, gitStream } from "./git.ts"
import { temporaryDirectory } from "./testing/host-repos.ts"

const never = new AbortController().signal
/** Longer than any wait here. The sleeper is ended by the code under test, or after the test. */
const SLEEP_S = 120

/** Plays git that leaves a process behind, as a helper may. It holds those of git's pipes that are not redirected. */
const leavesBehind = (how: "sleep" | "setsid sleep", redirected: string) => {
  const notes = temporaryDirectory()
  const note = (name: string) => {
    const path = join(notes, name)
    return existsSync(path) ? Number(readFileSync(path, "utf8")) : 0
  }
  const script = `${how} ${SLEEP_S} ${redirected} & echo $! > sleeper; echo $PPID > git`
  const sleeps = () => isRunning(note("sleeper"))
  onTestFinished(() => {
    if (sleeps()) process.kill(note("sleeper"), "SIGKILL")
  })
  const call = (more: Partial<GitCall>): GitCall => ({
    args: ["-c", `alias.leave=!${script}`, "leave"],
    cwd: notes,
    env: { PATH: process.env.PATH ?? "", GIT_CONFIG_NOSYSTEM: "1", HOME: notes },
    deadlineMs: 60_000,
    signal: never,
    ...more,
  })
  const hasEnded = () => note("git") > 0 && !existsSync(`/proc/${note("git")}`)
  return { call, sleeps, hasEnded }
}

const isRunning = (pid: number): boolean => {
  try {
    // The letter behind the name is the state. A zombie does not run.
    return pid > 0 && !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "utf8"))
  } catch {
    return false
  }
}

describe("git that has ended, and left a process behind that holds its pipes", () => {
  it("is given up at its deadline, with that process", async () => {
    const { call, sleeps, hasEnded } = leavesBehind("sleep", ">/dev/null")
    await expect(git(call({ deadlineMs: 1_000 }))).rejects.toMatchObject({
      code: "deadline.exceeded",
    })
    await expect.poll(sleeps).toBe(false)
    expect(hasEnded()).toBe(true)
  })

  it.each([
    ["", "sleep", false],
    [", and not waited for outside of its group", "setsid sleep", true],
  ] as const)("is given up with its caller%s", async (_, how, goesOn) => {
    const { call, sleeps, hasEnded } = leavesBehind(how, ">/dev/null")
    const stop = new AbortController()
    const running = expect(git(call({ signal: stop.signal }))).rejects.toThrow("enough")
    await expect.poll(hasEnded, { timeout: 10_000 }).toBe(true)
    stop.abort(new Error("enough"))
    await running
    await expect.poll(sleeps).toBe(goesOn)
  })

  it("is given up as a stream, which says why", async () => {
    const { call, sleeps, hasEnded } = leavesBehind("sleep", "")
    const stop = new AbortController()
    const stream = gitStream(call({ signal: stop.signal }), () => new Error() as never)
    const running = expect(stream.forEach(() => {})).rejects.toThrow("enough")
    await expect.poll(hasEnded, { timeout: 10_000 }).toBe(true)
    stop.abort(new Error("enough"))
    await running
    await expect.poll(sleeps).toBe(false)
  })

  it("leaves that process alone when it does not hold them", async () => {
    const { call, sleeps } = leavesBehind("sleep", ">/dev/null 2>&1")
    expect(await git(call({}))).toMatchObject({ status: 0 })
    expect(sleeps()).toBe(true)
  })
})
