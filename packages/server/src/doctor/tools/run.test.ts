import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest"
import { run } from "./run.ts"

const HOST = { path: "/usr/bin:/bin" }
const never = new AbortController().signal

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "berth-run-"))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

describe("run", () => {
  it("returns status and both outputs", async () => {
    expect(await run(HOST, ["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], never)).toEqual({
      status: 3,
      stdout: "out\n",
      stderr: "err\n",
    })
  })

  it("passes on nothing of the environment but the path", async () => {
    process.env.BERTH_DOCTOR_SECRET = "s3cret"
    onTestFinished(() => {
      delete process.env.BERTH_DOCTOR_SECRET
    })
    const { stdout } = await run(HOST, ["/usr/bin/env"], never)
    expect(stdout).toContain(`PATH=${HOST.path}`)
    expect(stdout).not.toContain("s3cret")
  })

  it("bounds what it keeps of an endless output", async () => {
    const { status, stdout } = await run(
      HOST,
      ["/bin/sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x"],
      never,
    )
    expect(status).toBe(0)
    expect(stdout).toHaveLength(64 * 1024)
  })

  it("rejects when the program cannot be started", async () => {
    await expect(run(HOST, ["/no/such/file"], never)).rejects.toMatchObject({ code: "ENOENT" })
  })

  // The background child inherits the pipes: `run` can only end when it is dead as well.
  const FOREVER = "sleep 1000 & echo $! > child; sleep 1000"

  it("kills the program and its children at the deadline", async () => {
    await expect(
      run(HOST, ["/bin/sh", "-c", FOREVER], never, { cwd: directory, deadlineMs: 300 }),
    ).rejects.toMatchObject({ code: "deadline.exceeded" })
    await expect.poll(async () => isAlive(await childPid())).toBe(false)
  })

  it("kills the program and its children when the caller cancels", async () => {
    const stop = new AbortController()
    const running = run(HOST, ["/bin/sh", "-c", FOREVER], stop.signal, { cwd: directory })
    await expect.poll(childPid).toBeGreaterThan(0)
    stop.abort(new Error("enough"))
    await expect(running).rejects.toThrow("enough")
    await expect.poll(async () => isAlive(await childPid())).toBe(false)
  })

  it("starts nothing once the caller has cancelled", async () => {
    const args = ["/bin/sh", "-c", "echo started > child"] as const
    await expect(
      run(HOST, args, AbortSignal.abort(new Error("too late")), { cwd: directory }),
    ).rejects.toThrow("too late")
    expect(await childPid()).toBe(0)
  })
})

const childPid = async (): Promise<number> =>
  Number.parseInt(await readFile(join(directory, "child"), "utf8").catch(() => "0"), 10) || 0

/** What was killed may wait for its reaper as a zombie: that is dead, too. */
const isAlive = async (pid: number): Promise<boolean> => {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")
  return stat !== "" && !/\) [ZX] /.test(stat)
}
