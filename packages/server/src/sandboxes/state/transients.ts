import type { SandboxId } from "@berth/protocol/ids"

/** The facts about a sandbox that only this server knows. They end with the server, and the next one needs none of them. */
export interface Transient {
  /** This server is making the sandbox. */
  isBeingMade: boolean
  /** The processes of the sandbox are frozen, or are about to be. */
  isFrozen: boolean
  /** The copies of its files for which the sandbox stands still: it goes on when the last of them is done. */
  readonly copies: Set<symbol>
  /** A copy has paused the sandbox: nobody else had. */
  isPausedForCopy: boolean
  /** Why the sandbox is to make room on the host, if it is. */
  pressure: string | undefined
  /** A person has asked for the successor of this stale sandbox. */
  isSuccessorAsked: boolean
}

/** The transient facts about all sandboxes, one record each. */
export class Transients {
  readonly #records = new Map<SandboxId, Transient>()

  /** The record of a sandbox, to be read. A sandbox without one has the record of a sandbox with which nothing is done. */
  get(sandbox: SandboxId): Readonly<Transient> {
    return this.#records.get(sandbox) ?? none()
  }

  /** The record of a sandbox, to be changed. */
  of(sandbox: SandboxId): Transient {
    const record = this.#records.get(sandbox) ?? none()
    this.#records.set(sandbox, record)
    return record
  }

  /** Whether nobody else may touch the sandbox: it is being made, or stands still for a copy. */
  isReserved(sandbox: SandboxId): boolean {
    const { isBeingMade, copies } = this.get(sandbox)
    return isBeingMade || copies.size > 0
  }

  /** The sandboxes that stand still while their files are copied. */
  copied(): SandboxId[] {
    return [...this.#records].filter(([, { copies }]) => copies.size > 0).map(([id]) => id)
  }

  forget(sandbox: SandboxId): void {
    this.#records.delete(sandbox)
  }
}

const none = (): Transient => ({
  isBeingMade: false,
  isFrozen: false,
  copies: new Set(),
  isPausedForCopy: false,
  pressure: undefined,
  isSuccessorAsked: false,
})
