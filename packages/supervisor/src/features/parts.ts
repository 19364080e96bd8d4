import type { Clock } from "../processes/clock.ts"
import type { Pipes } from "../processes/output/pipes.ts"
import type { ProcessSet } from "../processes/set.ts"
import type { User } from "../processes/user.ts"

/** What a feature is given by its surroundings. */
export interface FeatureParts {
  readonly clock: Clock
  readonly pipes: Pipes
  /** For what is to outlive the call that started it: it ends with the sandbox. */
  readonly processes: ProcessSet
  readonly places: {
    readonly workspace: string
    readonly home: string
    readonly toolbox: string
    readonly logs: string
  }
  /** The directory of the workspace's repo, where it has exactly one. */
  readonly onlyRepo?: string | undefined
  /** Whom all runs as; undefined: as the supervisor itself. */
  readonly user: User | undefined
  readonly environment: Readonly<Record<string, string>>
}
