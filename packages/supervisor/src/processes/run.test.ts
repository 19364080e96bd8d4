import { existsSync } from "node:fs"
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { systemClock } from "./clock.ts"
import { CAPTURE_BYTES } from "./hear.ts"
import { Pipes } from "./output/pipes.ts"
import { type Command, type CommandParts, runCommand } from "./run.ts"
import { Family, zombies } from "./testing/family.ts"
import { until } from "./testing/until.ts"
import { endTree } from "./tree/end.ts"

const never = new AbortController().signal
let family: Family
let directory: string
let pipes: Pipes
beforeEach(async () => {
  family = new Family()
  directory = await mkdtemp(join(tmpdir(), "berth-run-"))
  pipes = new Pipes(directory)
})
afterEach(async () => {
  pipes.close()
  family.killAll()
  await rm(directory, { recursive: true, force: true })
})

const run = (script: string, more: Partial<Command> = {}, parts: Partial<CommandParts> = {}) =>
  runCommand(
    {
      title: "the hook",
      command: ["/bin/sh", "-c", script],
      env: family.env,
      cwd: directory,
      deadlineMs: 20_000,
      ...more,
    },
    { clock: systemClock, pipes, signal: never, ...parts },
  )

const failure = async (promise: Promise<unknown>): Promise<BerthError> => {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(BerthError)
  return error as BerthError
}

const expectNothingLeft = () => {
  expect(family.running()).toEqual([])
  expect(zombies()).toEqual([])
}

describe("runCommand", () => {
  it("resolves with any status, the whole output as it came and the end of it", async () => {
    const heard: string[] = []
    const onOutput = (chunk: Buffer) => void heard.push(chunk.toString())
    const end = await run("echo one; echo two >&2; exit 3", {}, { onOutput })
    expect(end).toMatchObject({ status: 3, signal: null, lastOutput: "one\ntwo\n", stragglers: 0 })
    expect(heard.join("")).toBe("one\ntwo\n")
    expect(end.outputBytes).toBe(8)
    expect(end.background).toBeUndefined()
  })

  it("tells a signal from a status", async () => {
    expect(await run("kill -9 $$")).toMatchObject({ status: null, signal: "SIGKILL" })
  })

  it("captures standard output apart, and gives it its input", async () => {
    const end = await run("cat; echo progress >&2", { capture: { input: "refs/heads/main\n" } })
    expect(end).toMatchObject({ stdout: "refs/heads/main\n", lastOutput: "progress\n" })
    expect(
      await run("head -c 0; exit 0", { capture: { input: "x".repeat(500_000) } }),
    ).toMatchObject({ status: 0, stdout: "" })
  })

  it("keeps a captured output within its limit, and says that it is cut", async () => {
    const end = await run("head -c 3000000 /dev/zero | tr '\\0' x", { capture: {} })
    expect(end.isStdoutCut).toBe(true)
    expect(end.stdout).toHaveLength(CAPTURE_BYTES)
  })

  it("fails when it cannot be started", async () => {
    const error = await failure(run("", { command: ["/no/such/git"] }))
    expect(error.code).toBe("process.start_failed")
  })

  it("[R2.9] ends all processes when it is cancelled, and reports the last output", async () => {
    const cancel = new AbortController()
    const script = "setsid sh -c 'sleep 1000 & sleep 1001 &'; echo cloning; sleep 1002"
    const onOutput = () => cancel.abort(new Error("the boot ended"))
    const error = await failure(run(script, {}, { signal: cancel.signal, onOutput }))
    expect(error).toMatchObject({
      code: "cancelled",
      message: "the hook was cancelled",
      details: { lastOutput: "cloning\n", killed: 0, left: [] },
      cause: { message: "the boot ended" },
    })
    expectNothingLeft()
  })

  it("[R2.9] starts nothing when it is cancelled already", async () => {
    const error = await failure(run("touch started", {}, { signal: AbortSignal.abort() }))
    expect(error.code).toBe("cancelled")
    await expect(readFile(join(directory, "started"))).rejects.toMatchObject({ code: "ENOENT" })
  })

  it("[R2.9] kills a command that ignores SIGTERM when it misses its deadline", async () => {
    const deaf = `trap "" TERM; echo working; while :; do sleep 1000; done`
    const error = await failure(run(deaf, { deadlineMs: 300, stopGraceMs: 50 }))
    expect(error).toMatchObject({
      code: "deadline.exceeded",
      message: "the hook did not end within 300 ms",
      details: { deadlineMs: 300, lastOutput: "working\n", left: [] },
    })
    expect(error.details.killed).toBeGreaterThanOrEqual(1)
    expectNothingLeft()
  })

  it("[R2.9] ends the processes that a command left behind, though they hold its output open", async () => {
    const end = await run("setsid sh -c 'sleep 1000 &'; sleep 1001 & echo done")
    expect(end).toMatchObject({ status: 0, lastOutput: "done\n", stragglers: 2 })
    expectNothingLeft()
  })

  it("keeps a hook's background processes, whose output goes on into the log", async () => {
    const log = { path: join(directory, "start-hook.log") }
    const service = `(trap 'echo bye; exit 0' TERM; while [ ! -e go ]; do sleep 0.01; done; echo late; touch wrote; while :; do sleep 0.01; done) &`
    const heard: string[] = []
    const onOutput = (chunk: Buffer) => void heard.push(chunk.toString())
    const end = await run(`${service} echo started`, { keepBackground: true, log }, { onOutput })
    expect(end).toMatchObject({ status: 0, lastOutput: "started\n", stragglers: 0 })
    expect(end.background?.pids.length).toBeGreaterThanOrEqual(1)
    await writeFile(join(directory, "go"), "")
    await until(() => existsSync(join(directory, "wrote")))
    const tree = end.background?.tree
    if (tree === undefined) throw new Error("no background")
    expect(await endTree(tree, { clock: systemClock, graceMs: 5_000 })).toMatchObject({ killed: 0 })
    expectNothingLeft()
    expect(heard.join("")).toBe("started\n")
    const logged = await until(async () => {
      const text = await readFile(log.path, "utf8")
      return text.includes("bye") && text
    })
    expect(logged).toMatch(/^started\nlate\n.*bye\n$/s)
  })

  it("reports no background processes where a hook left none", async () => {
    expect((await run("true", { keepBackground: true })).background).toBeUndefined()
  })
})
