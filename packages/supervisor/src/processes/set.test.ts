import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { systemClock } from "./clock.ts"
import { RESTART_POLICY } from "./decide-restart.ts"
import { readyOnLine } from "./readiness/line.ts"
import { runCommand } from "./run.ts"
import { ProcessSet } from "./set.ts"
import type { ProcessEvent, ProcessSpec } from "./spec.ts"
import { Family, zombies } from "./testing/family.ts"
import { until } from "./testing/until.ts"

const never = new AbortController().signal
let family: Family
let directory: string
let processes: ProcessSet
let events: ProcessEvent[]
beforeEach(async () => {
  family = new Family()
  events = []
  directory = await mkdtemp(join(tmpdir(), "berth-set-"))
  processes = new ProcessSet({ clock: systemClock, onEvent: (event) => events.push(event) })
})
afterEach(async () => {
  await processes.stop({ graceMs: 0 })
  family.killAll()
  await rm(directory, { recursive: true, force: true })
})

const spec = (name: string, script: string, more: Partial<ProcessSpec> = {}): ProcessSpec => ({
  name,
  command: ["/bin/sh", "-c", script],
  env: family.env,
  cwd: directory,
  readiness: readyOnLine(/^up$/),
  ...more,
})

const SERVES = "echo up; exec sleep 1000"

describe("ProcessSet", () => {
  it("[R2.11] restarts a crashing process without holding up another", async () => {
    const restart = { ...RESTART_POLICY, firstDelayMs: 1, maxDelayMs: 5, maxFailures: Infinity }
    const crashing = processes.start(spec("crashing", "exit 1", { restart }))
    const agent = processes.start(spec("agent", SERVES))
    await agent.ready(never)
    await until(() => crashing.status().starts >= 5)
    expect(agent.status()).toMatchObject({ phase: "ready", starts: 1 })
    const late = processes.start(spec("late", SERVES))
    await late.ready(never)
    expect(events.filter(({ name, type }) => name !== "crashing" && type === "ended")).toEqual([])
  })

  it("[R2.11] stops a process while another ignores its stop", async () => {
    const deaf = `trap "" TERM; echo up; while :; do sleep 1000; done`
    await processes.start(spec("deaf", deaf)).ready(never)
    await processes.start(spec("agent", SERVES)).ready(never)
    const stopped: string[] = []
    for (const name of ["deaf", "agent"])
      void processes
        .get(name)
        ?.stop({ graceMs: 300 })
        .then(() => stopped.push(name))
    await processes.stop()
    expect(stopped).toEqual(["agent", "deaf"])
  })

  it("[R2.14] ends all processes, with those that hooks left in the background", async () => {
    await processes.start(spec("agent", SERVES)).ready(never)
    await processes.start(spec("editor", `sleep 1001 & ${SERVES}`)).ready(never)
    const hook = await runCommand(
      {
        ...spec("hook", "setsid sh -c 'sleep 1002 &'; sleep 1003 &"),
        title: "start hook",
        deadlineMs: 10_000,
        keepBackground: true,
      },
      { clock: systemClock, signal: never },
    )
    if (hook.background) processes.keep("start hook", hook.background)
    expect(family.running()).toHaveLength(5)
    const reports = await processes.stop()
    expect(reports.map(({ name, asked, killed }) => [name, asked, killed])).toEqual([
      ["agent", 1, 0],
      ["editor", 2, 0],
      ["start hook", 2, 0],
    ])
    expect(family.running()).toEqual([])
    expect(zombies()).toEqual([])
  })

  it("[R2.14] can be stopped twice, and starts nothing afterwards", async () => {
    await processes.start(spec("agent", SERVES)).ready(never)
    const [first, second] = await Promise.all([processes.stop(), processes.stop()])
    expect(second).toEqual(first)
    expect(() => processes.start(spec("late", SERVES))).toThrow("all are being stopped")
    expect(processes.status()).toMatchObject([{ name: "agent", phase: "stopped" }])
    expect(family.running()).toEqual([])
  })

  it("takes each name once, until the process of that name has been stopped", async () => {
    const agent = processes.start(spec("agent", SERVES))
    expect(() => processes.start(spec("agent", SERVES))).toThrow("already")
    const stopped = agent.stop()
    expect(() => processes.start(spec("agent", SERVES))).toThrow("already")
    await stopped
    await processes.start(spec("agent", SERVES)).ready(never)
    expect(processes.status()).toMatchObject([{ name: "agent", phase: "ready" }])
  })
})
