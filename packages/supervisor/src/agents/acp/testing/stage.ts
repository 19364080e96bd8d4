import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, join } from "node:path"
import { fileURLToPath } from "node:url"
import type { Permissions } from "@berth/protocol/workspace"
import { onTestFinished } from "vitest"
import { type Clock, systemClock } from "../../../processes/clock.ts"
import { Pipes } from "../../../processes/output/pipes.ts"
import { ProcessSet } from "../../../processes/set.ts"
import { Family } from "../../../processes/testing/family.ts"
import type { User } from "../../../processes/user.ts"
import type { Agent } from "../../agent.ts"
import { ignore, never } from "../../testing/ask.ts"
import { type AcpOptions, acpAgent } from "../acp.ts"

const program = fileURLToPath(new URL("scripted-agent.ts", import.meta.url))
export const SCRIPTED = [process.execPath, program] as const

export interface StageOptions extends Partial<Omit<AcpOptions, "environment">> {
  /** Makes the options of an agent that the toolbox brings, to be used instead of the options given here. */
  readonly known?: (permissions: Permissions, toolbox: string) => AcpOptions
  readonly user?: User
  readonly keys?: Readonly<Record<string, string>>
  readonly environment?: Readonly<Record<string, string>>
  /** Clock for the restarts of the agent's process. */
  readonly restartClock?: Clock
}

/** Makes an agent with a home and a repo of its own. `atEnd` removes everything: by default after the test. */
export const makeStage = (
  options: StageOptions = {},
  atEnd: (cleanUp: () => Promise<void>) => void = onTestFinished,
) => {
  const directory = mkdtempSync(join(tmpdir(), "berth-acp-test-"))
  const [home, repo, toolbox, logs] = ["home", "repo", "toolbox", "logs"].map((name) => {
    mkdirSync(join(directory, name))
    return join(directory, name)
  }) as [string, string, string, string]
  const { user } = options
  if (user !== undefined) {
    chmodSync(directory, 0o755)
    for (const path of [home, repo]) chownSync(path, user.uid, user.gid)
  }
  const family = new Family()
  const pipes = new Pipes(logs)
  const sets: ProcessSet[] = []
  const make = (more: StageOptions = {}): { agent: Agent; processes: ProcessSet } => {
    const { keys = {}, environment, user, known, restartClock, ...acp } = { ...options, ...more }
    const processes = new ProcessSet({ clock: restartClock ?? systemClock, pipes })
    sets.push(processes)
    const parts = {
      clock: systemClock,
      pipes,
      processes,
      user,
      environment: { ...family.env, HOME: home, ...environment },
      keys: { environment: keys },
      places: { workspace: join(directory, "workspace"), home, toolbox, logs },
    }
    const { permissions = "allow", command = SCRIPTED } = acp
    const plain = { name: "acp", title: basename(command[0]), ...acp, command, permissions }
    const agent = acpAgent(parts, known?.(permissions, toolbox) ?? plain)
    return { agent, processes }
  }
  atEnd(async () => {
    await Promise.all(sets.map((processes) => processes.stop({ graceMs: 0 })))
    pipes.close()
    family.killAll()
    rmSync(directory, { recursive: true, force: true })
  })
  return { ...make(), another: make, family, directory, repo, home, toolbox }
}

export const started = async ({ agent, repo }: { agent: Agent; repo: string }): Promise<Agent> => {
  await agent.start(never, ignore)
  await agent.attach(repo, never)
  return agent
}
