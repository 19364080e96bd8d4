import type { BootPlan } from "@berth/protocol/boot-plan"
import type { Agent } from "../agents/agent.ts"
import type { Clock } from "../processes/clock.ts"
import type { Pipes } from "../processes/output/pipes.ts"
import type { ProcessSet } from "../processes/set.ts"
import type { User } from "../processes/user.ts"
import type { HostRepos } from "../repos/host-repos.ts"

/** Paths of a sandbox. They are always the same, except in tests. */
export interface Places {
  /** /workspace, which holds the repos. */
  readonly workspace: string
  /** The user's home. */
  readonly home: string
  /** /opt/berth, read-only. */
  readonly toolbox: string
  /** Directory for the logs of kept processes. It is gone with the sandbox, and for root only. */
  readonly logs: string
}

/** Makes ports of the host reachable at the same ports inside. */
export interface HostPorts {
  /** Listens on a port. Rejects if a program inside has the port. */
  listen(port: number): Promise<void>
}

/** The dependencies that the steps of a boot share. */
export interface BootContext {
  readonly plan: BootPlan
  readonly places: Places
  /** The user that hooks, sidecars, git and the agent run as; undefined: the supervisor's own. */
  readonly user: User | undefined
  /** The environment of everything that runs as that user: PATH, HOME and so on, and the plan's variables. */
  readonly environment: Readonly<Record<string, string>>
  readonly clock: Clock
  readonly pipes: Pipes
  /** Holds processes that outlive the step that starts them. */
  readonly processes: ProcessSet
  readonly agent: Agent
  /** Resolves when prompts can be accepted and events kept. */
  readonly bridge: Promise<unknown>
  /** Fetches repos that only the server can reach. */
  readonly hostRepos: HostRepos
  readonly hostPorts: HostPorts
}
