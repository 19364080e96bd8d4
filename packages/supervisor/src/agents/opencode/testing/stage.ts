import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { makeOpencodeToolbox, scriptedConfig, writeOpencodeConfig } from "@berth/testing/opencode"
import {
  type ModelReply,
  type ModelTurn,
  type ScriptedModel,
  startScriptedModel,
} from "@berth/testing/scripted-model"
import { onTestFinished } from "vitest"
import { type Clock, systemClock } from "../../../processes/clock.ts"
import { Pipes } from "../../../processes/output/pipes.ts"
import { ProcessSet } from "../../../processes/set.ts"
import type { ProcessEvent } from "../../../processes/spec.ts"
import { Family } from "../../../processes/testing/family.ts"
import type { Agent } from "../../agent.ts"
import { Client } from "../client.ts"
import { type OpenCodeOptions, opencodeAgent } from "../opencode.ts"

export interface Stage {
  readonly agent: Agent
  /** Makes a second agent with the same files, like one in another sandbox. */
  another(options?: Partial<OpenCodeOptions>): Pick<Stage, "agent" | "processes">
  readonly processes: ProcessSet
  readonly family: Family
  readonly model: ScriptedModel
  readonly directory: string
  readonly repo: string
  readonly home: string
  /** The events of the agent's process. */
  readonly news: ProcessEvent[]
  /** Asks the OpenCode of these processes directly. */
  clientOf(processes: ProcessSet): Client
}

export interface StageOptions extends Partial<OpenCodeOptions> {
  readonly script?: (turn: ModelTurn) => ModelReply
  /** A shell script to run instead of OpenCode. */
  readonly instead?: string
  /** Further configuration of OpenCode. */
  readonly config?: object
  /** Clock for the restarts of the agent's process. */
  readonly restartClock?: Clock
}

/** Makes an agent with a home, a repo and a model of its own. `atEnd` removes everything: by default after the test. */
export const makeStage = async (
  options: StageOptions = {},
  atEnd: (cleanUp: () => Promise<void>) => void = onTestFinished,
): Promise<Stage> => {
  const directory = mkdtempSync(join(tmpdir(), "berth-opencode-test-"))
  const [home, repo, toolbox, logs, scratch] = [
    "home",
    "watched-repo",
    "toolbox",
    "logs",
    "tmp",
  ].map((name) => {
    mkdirSync(join(directory, name))
    return join(directory, name)
  }) as [string, string, string, string, string]
  const family = new Family()
  const model = await startScriptedModel(options.script ?? (() => ({ text: ["Hello"] })))
  const config = { ...scriptedConfig(model.baseUrl), ...options.config }
  writeOpencodeConfig(join(home, ".config/opencode"), config)
  const instead = join(directory, "instead")
  if (options.instead === undefined) makeOpencodeToolbox(toolbox)
  else {
    writeFileSync(instead, `#!/bin/sh\n${options.instead}\n`, { mode: 0o755 })
    makeOpencodeToolbox(toolbox, instead)
  }
  const news: ProcessEvent[] = []
  const pipes = new Pipes(logs)
  const sets: ProcessSet[] = []
  const make = ({ model, permissions = "allow" }: Partial<OpenCodeOptions>) => {
    const clock = options.restartClock ?? systemClock
    const processes = new ProcessSet({ clock, pipes, onEvent: (it) => news.push(it) })
    sets.push(processes)
    const path = `${family.env.PATH}:${join(toolbox, "bin")}`
    const environment = { ...family.env, PATH: path, HOME: home, TMPDIR: scratch }
    const places = { workspace: join(directory, "workspace"), home, toolbox, logs }
    const parts = { clock: systemClock, pipes, processes, user: undefined, environment, places }
    const keys = { environment: {} }
    return { agent: opencodeAgent({ ...parts, keys }, { model, permissions }), processes }
  }
  atEnd(async () => {
    await Promise.all(sets.map((processes) => processes.stop({ graceMs: 0 })))
    pipes.close()
    await model.close()
    family.killAll()
    rmSync(directory, { recursive: true, force: true })
  })
  const clientOf = (processes: ProcessSet): Client => {
    const { pid } = processes.get("opencode")?.status() ?? {}
    const environment = readFileSync(`/proc/${pid}/environ`, "latin1")
    const [, password = ""] = /OPENCODE_SERVER_PASSWORD=([^\0]*)\0/.exec(environment) ?? []
    const log = readFileSync(join(logs, "opencode.log"), "utf8")
    // The port of its last process, if there were several.
    const port = Number([...log.matchAll(/127\.0\.0\.1:(\d+)/g)].at(-1)?.[1])
    return new Client({ port, password })
  }
  const another = (others: Partial<OpenCodeOptions> = {}) => make({ ...options, ...others })
  return { ...make(options), another, clientOf, family, model, directory, repo, home, news }
}
