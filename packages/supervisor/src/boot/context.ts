import type { BootPlan } from "@berth/protocol/boot-plan"
import type { Agent } from "../agents/agent.ts"
import type { Clock } from "../processes/clock.ts"
import type { Pipes } from "../processes/output/pipes.ts"
import type { ProcessSet } from "../processes/set.ts"
import type { User } from "../processes/user.ts"
import type { HostRepos } from "../repos/host-repos.ts"

/** Where things lie. In a sandbox always at the same places; tests have others. */
export interface Places {
  /** /workspace: the repos lie below it. */
  readonly workspace: string
  /** The user's own directory. */
  readonly home: string
  /** /opt/berth, read-only. */
  readonly toolbox: string
  /** For the logs of what is kept running: gone with the sandbox, and for root only. */
  readonly logs: string
}

/** Ports of the host, at the same ports inside. */
export interface HostPorts {
  /** Rejects where a program inside has the port. */
  listen(port: number): Promise<void>
}

/** What the steps of a boot share. */
export interface BootContext {
  readonly plan: BootPlan
  readonly places: Places
  /** Whom hooks, sidecars, git and the agent run as; undefined: as the supervisor itself. */
  readonly user: User | undefined
  /** Of everything that runs as that user: PATH, HOME and so on, and the plan's own. */
  readonly environment: Readonly<Record<string, string>>
  readonly clock: Clock
  readonly pipes: Pipes
  /** What is to outlive the step that starts it. */
  readonly processes: ProcessSet
  readonly agent: Agent
  /** Resolves when prompts can be taken and events kept. */
  readonly bridge: Promise<unknown>
  /** How repos come in that only the server can reach. */
  readonly hostRepos: HostRepos
  readonly hostPorts: HostPorts
}
