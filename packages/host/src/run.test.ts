import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest"
import { PLAIN_ENV } from "./child.ts"
import { run } from "./run.ts"

const never = new AbortController().signal

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "berth-run-"))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

describe("run", () => {
  it("returns status and both outputs", async () => {
    expect(
      await run(["/bin/sh", "-c", "echo out; echo err >&2; exit 3"], { signal: never }),
    ).toEqual({
      status: 3,
      stdout: "out\n",
      stderr: "err\n",
    })
  })

  it("passes on the standard path, and no secret of the environment", async () => {
    process.env.BERTH_DOCTOR_SECRET = "s3cret"
    onTestFinished(() => {
      delete process.env.BERTH_DOCTOR_SECRET
    })
    const { stdout } = await run(["/usr/bin/env"], { signal: never })
    expect(stdout).toContain(`PATH=${PLAIN_ENV.PATH}`)
    expect(stdout).not.toContain("s3cret")
  })

  it("keeps 256 KiB of a longer output", async () => {
    const { status, stdout } = await run(
      ["/bin/sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x"],
      { signal: never },
    )
    expect(status).toBe(0)
    expect(stdout).toHaveLength(256 * 1024)
  })

  it("feeds the input, also to a program that does not read all of it", async () => {
    const input = "x".repeat(1_000_000)
    const { stdout } = await run(["/usr/bin/wc", "-c"], { signal: never, input })
    expect(stdout.trim()).toBe("1000000")
    expect(await run(["/usr/bin/head", "-c", "1"], { signal: never, input })).toMatchObject({
      status: 0,
      stdout: "x",
    })
  })

  it("rejects when the program cannot be started", async () => {
    await expect(run(["/no/such/file"], { signal: never })).rejects.toMatchObject({
      code: "ENOENT",
    })
  })

  // The background child inherits the pipes: `run` can only end when it is dead as well.
  const FOREVER = "sleep 1000 & echo $! > child; sleep 1000"

  it("kills the program and its children at the deadline", async () => {
    await expect(
      run(["/bin/sh", "-c", FOREVER], { signal: never, cwd: directory, deadlineMs: 300 }),
    ).rejects.toMatchObject({ code: "deadline.exceeded" })
    await expect.poll(async () => isAlive(await childPid())).toBe(false)
  })

  it("kills the program and its children when the caller cancels", async () => {
    const stop = new AbortController()
    const running = run(["/bin/sh", "-c", FOREVER], { signal: stop.signal, cwd: directory })
    await expect.poll(childPid).toBeGreaterThan(0)
    stop.abort(new Error("enough"))
    await expect(running).rejects.toThrow("enough")
    await expect.poll(async () => isAlive(await childPid())).toBe(false)
  })

  it("starts nothing once the caller has cancelled", async () => {
    const args = ["/bin/sh", "-c", "echo started > child"] as const
    await expect(
      run(args, { signal: AbortSignal.abort(new Error("too late")), cwd: directory }),
    ).rejects.toThrow("too late")
    expect(await childPid()).toBe(0)
  })
})

const childPid = async (): Promise<number> =>
  Number.parseInt(await readFile(join(directory, "child"), "utf8").catch(() => "0"), 10) || 0

/** A killed process that waits for its reaper as a zombie counts as dead. */
const isAlive = async (pid: number): Promise<boolean> => {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "")
  return stat !== "" && !/\) [ZX] /.test(stat)
}
