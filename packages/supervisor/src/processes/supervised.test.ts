import { readdirSync, readlinkSync } from "node:fs"
import { mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { systemClock } from "./clock.ts"
import { RESTART_POLICY } from "./decide-restart.ts"
import { readyOnLine } from "./readiness/line.ts"
import { readyOnceUp } from "./readiness/started.ts"
import type { ProcessEvent, ProcessParts, ProcessSpec } from "./spec.ts"
import { SupervisedProcess } from "./supervised.ts"
import { Family, zombies } from "./testing/family.ts"
import { ManualClock } from "./testing/manual-clock.ts"
import { until } from "./testing/until.ts"
import { readProcess } from "./tree/proc.ts"

const never = new AbortController().signal
/** Restarts at once, so that no test waits; and does not give up. */
const EAGER = { ...RESTART_POLICY, firstDelayMs: 1, maxDelayMs: 1, maxFailures: Infinity }
let family: Family
let directory: string
let begun: SupervisedProcess[]
beforeEach(async () => {
  family = new Family()
  begun = []
  directory = await mkdtemp(join(tmpdir(), "berth-supervised-"))
})
afterEach(async () => {
  await Promise.all(begun.map((process) => process.stop({ graceMs: 0 })))
  family.killAll()
  await rm(directory, { recursive: true, force: true })
})

const make = (
  script: string,
  more: Partial<ProcessSpec> = {},
  parts: Partial<ProcessParts> = {},
) => {
  const events: ProcessEvent[] = []
  const spec: ProcessSpec = {
    name: "agent",
    command: ["/bin/sh", "-c", script],
    env: family.env,
    cwd: directory,
    readiness: readyOnLine(/^up$/),
    restart: EAGER,
    ...more,
  }
  const process = new SupervisedProcess(spec, {
    clock: systemClock,
    onEvent: (event: ProcessEvent) => events.push(event),
    ...parts,
  })
  begun.push(process)
  const heard = <Type extends ProcessEvent["type"]>(type: Type) =>
    events.filter((event): event is ProcessEvent & { type: Type } => event.type === type)
  return { process, events, heard }
}

const start = (...args: Parameters<typeof make>) => {
  const made = make(...args)
  made.process.start()
  return made
}

/** No program is started after the line: while a process starts one, the kernel shows no environment of it. */
const SERVES = `exec perl -e '$| = 1; print "up\\n"; sleep 1000'`
const IGNORES_TERM = `trap "" TERM; echo up; while :; do sleep 1000; done`

const expectNothingLeft = () => {
  expect(family.running()).toEqual([])
  expect(zombies()).toEqual([])
}

describe("SupervisedProcess", () => {
  it("[R2.10] becomes ready with the line that it waits for", async () => {
    const { process, heard } = start(SERVES)
    expect(process.status()).toMatchObject({ phase: "starting", pid: undefined })
    await process.ready(never)
    expect(process.status()).toMatchObject({ phase: "ready", starts: 1, failures: 0 })
    expect(family.running()).toEqual([process.status().pid])
    expect(heard("ready")).toHaveLength(1)
    await process.ready(never)
  })

  it("starts once, however often it is asked", async () => {
    const { process } = start(SERVES)
    process.start()
    await process.ready(never)
    process.start()
    expect(family.running()).toHaveLength(1)
  })

  it("[R2.11] starts again after a crash, and says how it ended", async () => {
    const { process, heard } = start(SERVES)
    await process.ready(never)
    globalThis.process.kill(process.status().pid as number, "SIGKILL")
    await until(() => heard("ready").length === 2)
    expect(heard("ended")[0]?.how).toBe("it was ended by SIGKILL")
    expect(heard("restarting")[0]?.reason).toMatch(/^it was ended by SIGKILL; failure 1 in a row/)
    expect(process.status()).toMatchObject({ phase: "ready", starts: 2, failures: 1 })
  })

  it("[R2.11] ends the processes that a crashed process left, before it starts again", async () => {
    const crashes = `setsid sh -c 'sleep 1000 &'; sleep 1001 & [ -e again ] && { echo up; exec sleep 1002; }; touch again; exit 3`
    const { process, heard } = start(crashes)
    await process.ready(never)
    expect(heard("ended")[0]?.how).toBe("it ended with status 3 before it was ready")
    // A program that is being started right now cannot be told from others.
    await expect.poll(() => family.running()).toHaveLength(3)
    await process.stop()
    expectNothingLeft()
  })

  it("[R2.11] ends the processes that a crashed process left without waiting for the grace of a stop", async () => {
    const crashes = `[ -e again ] && { echo up; exec sleep 1000; }; touch again
      (trap "" TERM; while :; do sleep 1000; done) & exit 3`
    const { process, heard } = start(crashes, { stopGraceMs: 3_600_000 })
    await process.ready(never)
    expect(heard("ended")).toHaveLength(1)
  })

  it("keeps the very last words of a process that crashes", async () => {
    const { process } = start("head -c 200000 /dev/zero; echo last words; exit 1", {
      restart: { ...EAGER, maxFailures: 1 },
    })
    await expect(process.ready(never)).rejects.toMatchObject({ code: "process.given_up" })
    expect(process.lastOutput().endsWith("last words\n")).toBe(true)
  })

  it("[R2.11] is given up when it keeps failing, with its last output", async () => {
    const { process, heard } = start("echo cannot open database; exit 1", {
      restart: { ...EAGER, maxFailures: 3 },
    })
    const error = await process.ready(never).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(BerthError)
    expect(error).toMatchObject({
      code: "process.given_up",
      details: { process: "agent", lastOutput: "cannot open database\n".repeat(3) },
    })
    expect(process.status()).toMatchObject({ phase: "given-up", starts: 3, failures: 3 })
    expect(heard("given-up")).toHaveLength(1)
    await expect(process.ready(never)).rejects.toMatchObject({ code: "process.given_up" })
    expect(await process.stop()).toMatchObject({ asked: 0, killed: 0, left: [] })
    expect(process.status().phase).toBe("given-up")
    expectNothingLeft()
  })

  it("[R2.11] counts a command that does not exist as a failure, and runs it once it exists", async () => {
    const command: ProcessSpec["command"] = [join(directory, "server")]
    const { process, heard } = start("", { command })
    await until(() => heard("ended").length >= 1)
    expect(heard("ended")[0]?.how).toContain("could not be started: ENOENT")
    await writeFile(join(directory, "server.tmp"), `#!/bin/sh\n${SERVES}\n`, { mode: 0o755 })
    await rename(join(directory, "server.tmp"), join(directory, "server"))
    await process.ready(never)
  })

  it("[R2.11] forgets its failures after a healthy while", async () => {
    const { process, heard } = start(SERVES, {
      restart: { ...EAGER, maxFailures: 2, healthyAfterMs: 1 },
    })
    for (const round of [1, 2, 3, 4]) {
      const { atMs } = await until(() => heard("ready")[round - 1])
      await until(() => systemClock.nowMs() - atMs > 2)
      globalThis.process.kill(process.status().pid as number, "SIGKILL")
    }
    await until(() => heard("ready").length === 5)
    expect(process.status()).toMatchObject({ phase: "ready", failures: 1 })
  })

  it("[R2.10] restarts a process that does not become ready in time, and ends all that it started", async () => {
    const { process, heard } = start("[ -e again ] && echo up; touch again; sleep 1000", {
      readyWithinMs: 200,
      restart: EAGER,
    })
    await process.ready(never)
    expect(heard("ended").map(({ how }) => how)).toContain(
      "it did not become ready within 200 ms: it wrote no line like /^up$/",
    )
    await until(() => family.running().length === 2)
  })

  it("waits as long as the policy says before it starts again", async () => {
    const clock = new ManualClock()
    const { process, heard } = start(
      "exit 1",
      { restart: { ...RESTART_POLICY, jitter: 0.5 } },
      { clock, chance: () => 1 },
    )
    await until(() => heard("restarting").length === 1)
    expect(process.status()).toMatchObject({ phase: "backing-off", failures: 1 })
    await clock.advance(124)
    expect(process.status().starts).toBe(1)
    await clock.advance(1)
    await until(() => process.status().starts === 2)
    expect(heard("restarting").map(({ afterMs }) => afterMs)[0]).toBe(125)
    // A stop that meets the process between its start and its end needs the clock to go on.
    const stopped = process.stop().then(() => true)
    while (!(await Promise.race([stopped, clock.advance(1_000)])));
  })

  it("keeps the end of its output, and all of it in a file", async () => {
    const path = join(directory, "agent.log")
    const { process } = start(`echo one; echo two >&2; ${SERVES}`, { log: { path } })
    await process.ready(never)
    await process.stop()
    expect(process.lastOutput().split("\n").sort().join(" ").trim()).toBe("one two up")
    expect((await readFile(path, "utf8")).length).toBe("one\ntwo\nup\n".length)
    const open = readdirSync("/proc/self/fd").flatMap((fd) => {
      try {
        return [readlinkSync(`/proc/self/fd/${fd}`)]
      } catch {
        return []
      }
    })
    expect(open).not.toContain(path)
  })

  it("goes on when its log cannot be written, and says so once", async () => {
    const path = join(directory, "missing", "agent.log")
    const { process, heard } = start(SERVES, { log: { path } })
    await process.ready(never)
    await until(() => heard("log-failed").length === 1)
    expect(heard("log-failed")[0]?.problem).toContain("ENOENT")
    expect(process.status().phase).toBe("ready")
  })

  it("is connected by its standard input and output, anew after each start", async () => {
    const answers: string[] = []
    const { process, heard } = start('read line; echo "got $line"; echo up >&2; exec sleep 1000', {
      connect: ({ stdin, stdout }) => {
        stdin.write("hello\n")
        stdout.on("data", (chunk: Buffer) => answers.push(chunk.toString()))
      },
    })
    await process.ready(never)
    globalThis.process.kill(process.status().pid as number, "SIGKILL")
    await until(() => heard("ready").length === 2)
    await until(() => answers.length === 2)
    expect(answers).toEqual(["got hello\n", "got hello\n"])
    expect(process.lastOutput()).toBe("up\nup\n")
  })

  it("is given up when its connection throws, though its watcher throws as well", async () => {
    const events: string[] = []
    const { process } = start(
      SERVES,
      {
        restart: { ...EAGER, maxFailures: 1 },
        connect: () => {
          throw new Error("no adapter")
        },
      },
      {
        onEvent: ({ type }) => {
          events.push(type)
          throw new Error("no watcher")
        },
      },
    )
    await expect(process.ready(never)).rejects.toThrow("no adapter")
    expect(events).toEqual(["started", "ended", "given-up"])
    expectNothingLeft()
  })
})

describe("SupervisedProcess.stop", () => {
  it("[R2.14] asks the processes to end, and kills none that obeys", async () => {
    const { process, heard } = start("sleep 1000 & echo up; wait")
    await process.ready(never)
    const report = await process.stop()
    expect(report).toMatchObject({ name: "agent", asked: 2, killed: 0, left: [] })
    expect(process.status()).toMatchObject({ phase: "stopped", pid: undefined })
    expect(heard("stopped")).toEqual([expect.objectContaining({ report })])
    expect(heard("ended")).toEqual([])
    expectNothingLeft()
  })

  it("[R2.14] kills the processes after the grace", async () => {
    const { process } = start(IGNORES_TERM)
    await process.ready(never)
    expect((await process.stop({ graceMs: 50 })).killed).toBeGreaterThanOrEqual(1)
    expectNothingLeft()
  })

  it("[R2.14] has one report for several calls, and a second call may hurry the first", async () => {
    const { process } = start(IGNORES_TERM)
    await process.ready(never)
    const first = process.stop({ graceMs: 3_600_000 })
    const second = process.stop({ hurry: AbortSignal.abort() })
    expect(await second).toBe(await first)
    expect(await process.stop()).toBe(await first)
    expectNothingLeft()
  })

  it("[R2.14] before the start keeps the process from starting", async () => {
    const { process } = make(SERVES)
    await process.stop()
    process.start()
    expect(process.status()).toMatchObject({ phase: "stopped", starts: 0 })
    await expect(process.ready(never)).rejects.toMatchObject({ code: "process.stopped" })
  })

  it("[R2.14] during the start leaves no process", async () => {
    const { process } = start(SERVES)
    const waiting = process.ready(never)
    const stopped = process.stop()
    await expect(waiting).rejects.toMatchObject({ code: "process.stopped" })
    await stopped
    expect(process.status().phase).toBe("stopped")
    expectNothingLeft()
  })

  it("[R2.14] keeps a process that runs from becoming ready", async () => {
    const readiness: ProcessSpec["readiness"] = {
      description: "",
      wait: async () => void process.stop(),
    }
    const { process, heard } = start("exec sleep 1000", { readiness })
    await until(() => heard("stopped").length === 1)
    expect(heard("ready")).toEqual([])
    expectNothingLeft()
  })

  it("[R2.14] ends a process that is not ready yet", async () => {
    const { process } = start("sleep 1000")
    await until(() => family.running().length > 0)
    const waiting = process.ready(never)
    void process.stop()
    await expect(waiting).rejects.toMatchObject({ code: "process.stopped" })
    await process.stop()
    expectNothingLeft()
  })

  it("[R2.14] during a back-off does not wait for the restart", async () => {
    const { process, heard } = start("exit 1", {
      restart: { ...RESTART_POLICY, firstDelayMs: 3_600_000, maxDelayMs: 3_600_000 },
    })
    await until(() => heard("restarting").length === 1)
    expect(await process.stop()).toMatchObject({ asked: 0, killed: 0 })
    expect(process.status()).toMatchObject({ phase: "stopped", starts: 1 })
  })

  it("[R2.14] without a grace kills the processes that a crashed process left", async () => {
    const { process } = start(`trap "" TERM; (while :; do sleep 1000; done) & echo up; exit 1`)
    const pid = await until(() => process.status().pid)
    await until(() => readProcess(pid) === undefined && family.running().length > 0)
    expect((await process.stop({ graceMs: 0 })).killed).toBeGreaterThanOrEqual(1)
    expectNothingLeft()
  })

  it("is not the only end of a wait for readiness, which its caller can give up with a reason", async () => {
    const { process } = start("sleep 1000")
    const cancel = new AbortController()
    const waiting = process.ready(cancel.signal)
    cancel.abort("no patience")
    await expect(waiting).rejects.toBe("no patience")
    await expect(process.ready(cancel.signal)).rejects.toBe("no patience")
  })
})

describe("a process without a check", () => {
  it("is ready once it runs", async () => {
    const { process } = start("exec sleep 1000", { readiness: readyOnceUp(systemClock) })
    await process.ready(never)
    expect(family.running()).toHaveLength(1)
  })
})
