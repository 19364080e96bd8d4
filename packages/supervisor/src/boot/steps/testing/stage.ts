import { chownSync, mkdirSync, writeFileSync } from "node:fs"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import type { BootPlan } from "@berth/protocol/boot-plan"
import type { AgentFile } from "../../../agents/agent.ts"
import { type Clock, systemClock } from "../../../processes/clock.ts"
import { Pipes } from "../../../processes/output/pipes.ts"
import { ProcessSet } from "../../../processes/set.ts"
import type { ProcessEvent } from "../../../processes/spec.ts"
import { Family, zombies } from "../../../processes/testing/family.ts"
import type { User } from "../../../processes/user.ts"
import type { BootContext } from "../../context.ts"
import { buildGraph } from "../../graph.ts"
import { type BootRun, runBoot } from "../../run.ts"
import type { Step } from "../../step.ts"

/** The user of the steps' programs: an ordinary one if the tests run as root, else the test's own. */
export const TEST_USER: User | undefined =
  process.getuid?.() === 0 ? { uid: 1000, gid: 1000 } : undefined

type Planned = Partial<Omit<BootPlan, "repos">>

/** The directories of a sandbox, and processes that run as its user. There is one repo, `shop`. */
export class Stage {
  readonly family = new Family()
  readonly events: ProcessEvent[] = []
  readonly processes: ProcessSet
  readonly #pipes: Pipes

  readonly directory: string

  private constructor(directory: string, restartClock: Clock) {
    this.directory = directory
    this.#pipes = new Pipes(directory)
    this.processes = new ProcessSet({
      clock: restartClock,
      pipes: this.#pipes,
      onEvent: (event) => this.events.push(event),
    })
  }

  static async open(restartClock: Clock = systemClock): Promise<Stage> {
    const stage = new Stage(await mkdtemp(join(tmpdir(), "berth-steps-")), restartClock)
    chown(stage.directory)
    for (const name of ["workspace/shop", "home", "toolbox", "logs"])
      mkdirSync(stage.path(name), { recursive: true })
    for (const name of ["workspace", "workspace/shop", "home"]) chown(stage.path(name))
    return stage
  }

  path(...parts: string[]): string {
    return join(this.directory, ...parts)
  }

  /** Writes a file that belongs to the user, with the directories above it. */
  put(path: string, text: string, mode = 0o644): string {
    const file = this.path(path)
    const made = mkdirSync(dirname(file), { recursive: true })
    if (made !== undefined)
      for (let at = dirname(file); at.startsWith(made); at = dirname(at)) chown(at)
    writeFileSync(file, text, { mode })
    chown(file)
    return file
  }

  context({
    files = [],
    ...planned
  }: Planned & { files?: readonly AgentFile[] } = {}): BootContext {
    const plan = {
      mode: "fresh",
      repos: [{ directory: "shop", source: { kind: "host" } }],
      hooks: { setup: ".berth/setup.sh", start: ".berth/start.sh" },
      environment: {},
      sidecars: [],
      ...planned,
    }
    const agent = { name: "none", startsEarly: true, files }
    return {
      plan: plan as unknown as BootPlan,
      places: {
        workspace: this.path("workspace"),
        home: this.path("home"),
        toolbox: this.path("toolbox"),
        logs: this.path("logs"),
      },
      user: TEST_USER,
      environment: { ...this.family.env, HOME: this.path("home") },
      clock: systemClock,
      pipes: this.#pipes,
      processes: this.processes,
      agent: agent as unknown as BootContext["agent"],
      bridge: Promise.resolve(),
      hostRepos: { fetch: () => Promise.reject(new Error("there are none")) },
      hostPorts: { listen: async () => {} },
    }
  }

  /** Runs a boot with these steps alone. */
  boot(steps: readonly Step<BootContext>[], context: BootContext, signal?: AbortSignal): BootRun {
    return runBoot({
      mode: context.plan.mode,
      graph: buildGraph(steps),
      context,
      clock: systemClock,
      startedAt: new Date(),
      ...(signal && { signal }),
    })
  }

  /** The pids of processes that the test started and that still run. */
  running(): number[] {
    return [...this.family.running(), ...zombies()]
  }

  async close(): Promise<void> {
    await this.processes.stop({ graceMs: 0 })
    this.#pipes.close()
    this.family.killAll()
    await rm(this.directory, { recursive: true, force: true })
  }
}

const chown = (path: string): void => {
  if (TEST_USER !== undefined) chownSync(path, TEST_USER.uid, TEST_USER.gid)
}
