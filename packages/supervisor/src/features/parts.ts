import type { Clock } from "../processes/clock.ts"
import type { Pipes } from "../processes/output/pipes.ts"
import type { ProcessSet } from "../processes/set.ts"
import type { User } from "../processes/user.ts"

/** The dependencies of a feature. */
export interface FeatureParts {
  readonly clock: Clock
  readonly pipes: Pipes
  /** Holds processes that outlive the call that started them. They end with the sandbox. */
  readonly processes: ProcessSet
  readonly places: {
    readonly workspace: string
    readonly home: string
    readonly toolbox: string
    readonly logs: string
  }
  /** The directory of the workspace's repo, if it has exactly one. */
  readonly onlyRepo?: string | undefined
  /** The user that everything runs as; undefined: the supervisor's own. */
  readonly user: User | undefined
  readonly environment: Readonly<Record<string, string>>
}
