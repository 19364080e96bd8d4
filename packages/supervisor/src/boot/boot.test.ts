import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { type BootMode, BootTrace } from "@berth/protocol/boot"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { systemClock } from "../processes/clock.ts"
import { readyOnLine } from "../processes/readiness/line.ts"
import { runCommand } from "../processes/run.ts"
import { ProcessSet } from "../processes/set.ts"
import type { ProcessEvent } from "../processes/spec.ts"
import { Family, zombies } from "../processes/testing/family.ts"
import { until } from "../processes/testing/until.ts"
import { type BootResult, boot } from "./boot.ts"
import { buildGraph } from "./graph.ts"
import type { Step } from "./step.ts"

const clock = systemClock
let family: Family
let directory: string
beforeEach(async () => {
  family = new Family()
  directory = await mkdtemp(join(tmpdir(), "berth-boot-"))
})
afterEach(async () => {
  family.killAll()
  await rm(directory, { recursive: true, force: true })
})

/** The ends of steps and the events of processes, in order. */
type Log = string[]

/** A boot like a real one: git, a hook and an agent, each a real process; any of them can be made to fail. */
const begin = (
  scripts: Partial<Record<"git" | "hook" | "agent" | "files", string>>,
  mode: BootMode = "fresh",
) => {
  const log: Log = []
  const processes = new ProcessSet({
    clock,
    onEvent: ({ name, type }: ProcessEvent) => log.push(`${name} ${type}`),
  })
  const shell = (script: string) => ({
    command: ["/bin/sh", "-c", script] as const,
    env: family.env,
    cwd: directory,
  })
  const command = (name: string, needs: string[], script: string): Step<undefined> => ({
    name,
    needs,
    required: true,
    timeoutMs: 20_000,
    run: async (_, signal, tell) => {
      const what = { ...shell(script), title: name, deadlineMs: 20_000 }
      const keepBackground = name === "hook"
      const end = await runCommand(
        { ...what, keepBackground },
        { clock, signal, onOutput: (chunk) => tell.output(chunk) },
      )
      if (end.background) processes.keep(name, end.background)
      if (end.status !== 0) throw new Error(`${name} ended with status ${end.status}`)
      return { did: `${name} ran` }
    },
  })
  const agent: Step<undefined> = {
    name: "agent",
    needs: [],
    required: true,
    timeoutMs: 20_000,
    run: async (_, signal) => {
      const script = scripts.agent ?? "sleep 1000 & echo up; wait"
      const started = processes.start({
        name: "agent",
        ...shell(script),
        readiness: readyOnLine(/^up$/),
        restart: { firstDelayMs: 1, maxDelayMs: 1, jitter: 0, healthyAfterMs: 1, maxFailures: 2 },
      })
      await started.ready(signal)
      return { did: "it listens" }
    },
  }
  const cancel = new AbortController()
  const run = boot({
    mode,
    context: undefined,
    clock,
    startedAt: new Date(),
    processes,
    graph: buildGraph([
      command("files", [], scripts.files ?? "echo linked"),
      command("git", [], scripts.git ?? "echo cloned"),
      command("hook", ["git"], scripts.hook ?? "setsid sh -c 'sleep 1000 &'; echo prepared"),
      agent,
    ]),
    signal: cancel.signal,
    onEvent: (event) => {
      if (event.type === "boot.step.ended") log.push(`${event.step} step ended`)
    },
    stop: { graceMs: 2_000 },
  })
  return { run, processes, cancel, log }
}

const expectNothingLeft = () => {
  expect(family.running()).toEqual([])
  expect(zombies()).toEqual([])
}

const stateIn = (trace: BootTrace) =>
  Object.fromEntries(BootTrace.parse(trace).steps.map(({ name, state }) => [name, state]))
const stateOf = ({ trace }: BootResult) => stateIn(trace)

describe("boot", () => {
  it("[R2.1] succeeds, and its processes go on", async () => {
    const { run, processes } = begin({})
    const result = await run.result
    expect(result.trace.outcome).toBe("succeeded")
    expect(result.stopped).toBeUndefined()
    expect(family.running()).toHaveLength(3)
    await processes.stop()
    expectNothingLeft()
  })

  it("[R2.2] ends its processes after a build, which succeeded all the same", async () => {
    const { run } = begin({}, "build")
    const { trace, stopped } = await run.result
    expect(trace.outcome).toBe("succeeded")
    expect(stopped?.map(({ name }) => name)).toEqual(["agent", "hook"])
    expectNothingLeft()
  })

  it("[R2.9] has cancelled and awaited every step before it signals a process", async () => {
    const { run, log } = begin({
      agent: "echo $$ > agent.pid; echo up; exec sleep 1000",
      git: `trap 'sleep 0.2; kill -0 $(cat agent.pid) && echo alive > seen; exit 1' TERM
            echo cloning; while :; do sleep 0.01; done`,
      files: "while [ ! -s agent.pid ]; do sleep 0.01; done; echo broken >&2; exit 4",
    })
    const result = await run.result
    expect(result.trace).toMatchObject({
      outcome: "failed",
      ending: {
        step: "files",
        reason: "step files failed: files ended with status 4; its last line: broken",
      },
    })
    expect(result.trace.steps.find(({ name }) => name === "files")?.lastOutput).toBe("broken\n")
    expect(await readFile(join(directory, "seen"), "utf8")).toBe("alive\n")
    expect(result.stopped).toMatchObject([{ name: "agent", asked: 1, killed: 0, left: [] }])
    expect(log.at(-1)).toBe("agent stopped")
    expect(log.filter((entry) => entry.endsWith("step ended"))).toHaveLength(4)
    expectNothingLeft()
  })

  it("[R2.9] says whether the agent was up when another step failed", async () => {
    const git = "while [ ! -e go ]; do sleep 0.01; done; exit 128"
    const up = begin({ git })
    await until(() => stateIn(up.run.trace()).agent === "succeeded")
    await writeFile(join(directory, "go"), "")
    const { trace } = await up.run.result
    expect(trace.ending?.others.find(({ name }) => name === "agent")).toMatchObject({
      state: "succeeded",
      detail: "it listens",
    })
    await rm(join(directory, "go"))
    const down = await begin({ git, agent: "touch go; exec sleep 1000" }).run.result
    expect(stateOf(down)).toMatchObject({ git: "failed", hook: "skipped", agent: "cancelled" })
    expect(down.trace.ending?.others.find(({ name }) => name === "agent")?.state).toBe("running")
    expect(down.stopped).toMatchObject([{ name: "agent", left: [] }])
    expectNothingLeft()
  })

  it("[R2.9] fails with the agent's last words when it crashes at once", async () => {
    const { run } = begin({ git: "sleep 1000", agent: "echo no such model; exit 1" })
    const result = await run.result
    expect(result.trace.ending?.step).toBe("agent")
    expect(result.trace.ending?.reason).toContain("it ended with status 1 before it was ready")
    expect(stateOf(result)).toMatchObject({ git: "cancelled", hook: "skipped", agent: "failed" })
    expectNothingLeft()
  })

  it.each([
    ["git clones", { git: "trap '' TERM; echo x; while :; do sleep 1000; done" }, "git"],
    ["the hook runs", { hook: "setsid sh -c 'sleep 1000 &'; sleep 1000" }, "hook"],
    ["the agent starts", { agent: "sleep 1000" }, "agent"],
  ])("[R2.14] leaves no process behind when it is cancelled while %s", async (_, scripts, step) => {
    const { run, cancel } = begin(scripts)
    await until(() => run.trace().steps.find(({ name }) => name === step)?.state === "running")
    await until(() => family.running().length > 0)
    cancel.abort("SIGTERM")
    const result = await run.result
    expect(result.trace).toMatchObject({ outcome: "cancelled", ending: { step: null } })
    expect(stateOf(result)[step]).toBe("cancelled")
    expect(result.trace.steps.every(({ abandoned }) => !abandoned)).toBe(true)
    expectNothingLeft()
  })
})
