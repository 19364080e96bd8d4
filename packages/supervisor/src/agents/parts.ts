import type { Clock } from "../processes/clock.ts"
import type { Pipes } from "../processes/output/pipes.ts"
import type { ProcessSet } from "../processes/set.ts"
import type { User } from "../processes/user.ts"
import type { AgentKeys } from "./keys.ts"

/** The dependencies of an agent. */
export interface AgentParts {
  readonly clock: Clock
  readonly pipes: Pipes
  readonly processes: ProcessSet
  /** The user that the agent runs as; undefined: the supervisor's own. */
  readonly user: User | undefined
  readonly environment: Readonly<Record<string, string>>
  /** The keys, to be read when a process starts: they are loaded after this object is made. */
  readonly keys: Pick<AgentKeys, "environment">
  readonly places: {
    readonly workspace: string
    readonly home: string
    readonly toolbox: string
    readonly logs: string
  }
}
