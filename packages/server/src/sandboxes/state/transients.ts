import { isDeepStrictEqual } from "node:util"
import type { SandboxId } from "@berth/protocol/ids"

/** The facts about a sandbox that only this server knows. They end with it, and the next server needs none of them. */
export interface Transient {
  /** This server is making the sandbox. */
  readonly isBeingMade: boolean
  /** The processes of the sandbox are frozen, or are about to be. */
  readonly isFrozen: boolean
  /** The copies of its files for which the sandbox stands still: it goes on when the last of them is done. */
  readonly copies: ReadonlySet<symbol>
  /** The sandbox ran, and was paused for a copy. A sandbox that was paused before stays paused after the copy. */
  readonly isPausedForCopy: boolean
  /** Why the sandbox is to make room on the host, if it is. */
  readonly pressure: string | undefined
  /** A person has asked for the successor of this stale sandbox. */
  readonly isSuccessorAsked: boolean
}

/** The record of a sandbox with which nothing is done. */
const NONE: Transient = {
  isBeingMade: false,
  isFrozen: false,
  copies: new Set(),
  isPausedForCopy: false,
  pressure: undefined,
  isSuccessorAsked: false,
}

/** The transient facts about all sandboxes, one record each. */
export class Transients {
  readonly #records = new Map<SandboxId, Transient>()

  get(sandbox: SandboxId): Transient {
    return this.#records.get(sandbox) ?? NONE
  }

  /** Changes the record of a sandbox. A record that says nothing any more is dropped. */
  change(sandbox: SandboxId, change: Partial<Transient>): void {
    const record = { ...this.get(sandbox), ...change }
    if (isDeepStrictEqual(record, NONE)) this.#records.delete(sandbox)
    else this.#records.set(sandbox, record)
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

  /** Forgets a sandbox that is gone. Operations that still run for it end their own facts. */
  forget(sandbox: SandboxId): void {
    const { isBeingMade, copies, isPausedForCopy } = this.get(sandbox)
    this.change(sandbox, { ...NONE, isBeingMade, copies, isPausedForCopy })
  }
}
