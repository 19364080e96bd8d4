import type { PromptId } from "@berth/protocol/ids"
import type { PromptWait } from "@berth/protocol/session"
import type { Clock } from "../sandboxes/state/clock.ts"

/** Why a prompt does not run. The message is made when somebody looks: a boot goes on meanwhile. */
export interface WaitReason {
  readonly code: string
  readonly message: () => string
}

/**
 * The reasons why prompts wait. They are in memory alone: they hold for the attempts of this server, and the next
 * server finds its own with its first attempt.
 */
export class Waits {
  readonly #clock: Pick<Clock, "now">
  readonly #all = new Map<PromptId, WaitReason & { readonly since: string }>()

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock
  }

  /** Sets the reason, which began so long ago. The time goes on while the code stays the same. */
  set(prompt: PromptId, reason: WaitReason, agoMs = 0): void {
    const before = this.#all.get(prompt)
    const since =
      before?.code === reason.code
        ? before.since
        : new Date(this.#clock.now() - agoMs).toISOString()
    this.#all.set(prompt, { ...reason, since })
  }

  /** Clears the reason: the prompt runs, has ended, or is no longer this server's to run. */
  clear(prompt: PromptId): void {
    this.#all.delete(prompt)
  }

  of(prompt: PromptId): PromptWait | null {
    const wait = this.#all.get(prompt)
    return wait === undefined
      ? null
      : { code: wait.code, message: wait.message(), since: wait.since }
  }
}
