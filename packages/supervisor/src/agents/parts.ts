import type { Clock } from "../processes/clock.ts"
import type { Pipes } from "../processes/output/pipes.ts"
import type { ProcessSet } from "../processes/set.ts"
import type { User } from "../processes/user.ts"
import type { AgentKeys } from "./keys.ts"

/** What an agent is given by its surroundings. */
export interface AgentParts {
  readonly clock: Clock
  readonly pipes: Pipes
  readonly processes: ProcessSet
  /** Whom it runs as; undefined: as the supervisor itself. */
  readonly user: User | undefined
  readonly environment: Readonly<Record<string, string>>
  /** For the environment of its own processes, when they start: they come after the parts. */
  readonly keys: Pick<AgentKeys, "environment">
  readonly places: {
    readonly workspace: string
    readonly home: string
    readonly toolbox: string
    readonly logs: string
  }
}
