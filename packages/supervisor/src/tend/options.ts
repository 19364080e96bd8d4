import type { BootTrace } from "@berth/protocol/boot"
import type { Places } from "../boot/context.ts"
import type { Inside } from "../bridge/inside.ts"
import type { BridgeServer } from "../bridge/serve.ts"
import type { PlanHead } from "../plan.ts"
import type { Clock } from "../processes/clock.ts"
import type { User } from "../processes/user.ts"

/** The parts and places of a sandbox. */
export interface SandboxParts {
  readonly clock: Clock
  /** The directory that is shared with the server. */
  readonly shared: string
  readonly places: Places
  /** The socket on which git asks for credentials, in a directory that the user may enter. */
  readonly credentials: string
  /** The directory in which the user's programs find the host's certificate authorities. */
  readonly certificates: string
  /** The user that everything except the supervisor runs as. */
  readonly user: User & { readonly name: string }
  /** Stops the supervisor in order, with everything that it started. */
  readonly stop: AbortSignal
  /** Cuts the graces of processes and of the server short. */
  readonly hurry: AbortSignal
  /** Called with an error that cannot be reported elsewhere. */
  readonly onFault: (error: unknown) => void
}

/** What the socket tells of a sandbox. */
export interface Standing {
  ready: boolean
  promptCount: () => number
  trace: () => BootTrace
}

export interface TendOptions extends SandboxParts {
  /** The plan as it was read. */
  readonly plan: PlanHead
  readonly startedAt: Date
  /** Updated as the sandbox boots. */
  readonly standing: Standing
  /** The server on the sandbox's socket. Rejects if it cannot listen. */
  readonly bridge: Promise<BridgeServer>
  /** Called with the parts that answer the calls of clients. */
  readonly open: (inside: Inside) => void
}
