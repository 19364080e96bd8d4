import { once } from "node:events"
import { expect, it, onTestFinished } from "vitest"
import { type ChildOptions, keepEnd, keepStart, startChild } from "./child.ts"

const NEVER = new AbortController().signal

const start = (script: string, options: Partial<ChildOptions> = {}) => {
  const child = startChild(["sh", "-c", script], { signal: NEVER, ...options })
  onTestFinished(child.kill)
  return child
}

/** Resolves with the pid that a child says in its first line. */
const saidPid = async (stdout: NodeJS.ReadableStream): Promise<number> =>
  Number(String((await once(stdout, "data"))[0]))

const isThere = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

it("gives the status and the signal of the end", async () => {
  expect(await start("exit 3").closed).toEqual({ status: 3, endedBy: null })
  expect(await start("kill -TERM $$").closed).toEqual({ status: null, endedBy: "SIGTERM" })
})

it("rejects where the program is not there", async () => {
  const child = startChild(["/nowhere/program"], { signal: NEVER })
  await expect(child.exited).rejects.toMatchObject({ code: "ENOENT" })
  await expect(child.closed).rejects.toMatchObject({ code: "ENOENT" })
})

it("kills the children of the program at a cancel, and rejects with its reason", async () => {
  const cancel = new AbortController()
  const child = start("sleep 1000 & echo $!; wait", { signal: cancel.signal })
  const grandchild = await saidPid(child.stdout)
  cancel.abort(new Error("no longer wanted"))
  await expect(child.closed).rejects.toThrow("no longer wanted")
  await expect.poll(() => isThere(grandchild)).toBe(false)
})

it("rejects at the deadline, also where a process outside of the group holds the outputs", async () => {
  const child = start("setsid sh -c 'echo $$; exec sleep 1000' & wait", { deadlineMs: 500 })
  const outside = await saidPid(child.stdout)
  onTestFinished(() => void process.kill(outside, "SIGKILL"))
  await expect(child.closed).rejects.toMatchObject({ code: "deadline.exceeded" })
  expect(isThere(outside)).toBe(true)
})

it("ends with this process where that is asked", async () => {
  const script = `
    const { startChild } = await import(${JSON.stringify(`${import.meta.dirname}/child.ts`)})
    const child = startChild(["sleep", "1000"], { signal: undefined, endsWithServer: true })
    console.log(child.pid)`
  const parent = startChild(
    [process.execPath, "--conditions=source", "--input-type=module", "-e", script],
    { signal: NEVER },
  )
  const orphan = await saidPid(parent.stdout)
  expect(isThere(orphan)).toBe(true)
  parent.kill()
  await parent.closed
  await expect.poll(() => isThere(orphan)).toBe(false)
})

it("keeps the first or the last bytes of an output", async () => {
  const child = start("printf 0123456789; printf 0123456789 >&2")
  const first = keepStart(child.stdout, 4)
  const last = keepEnd(child.stderr, 4)
  await child.closed
  expect([first(), last()]).toEqual(["0123", "6789"])
})
