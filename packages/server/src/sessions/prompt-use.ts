import type { Use } from "../sandboxes/requests/use.ts"
import type { UsedSandboxes } from "../sandboxes/sandboxes.ts"
import { promptLease } from "./assign.ts"
import type { Presence } from "./presence.ts"
import type { AssignedPrompt, OpenPrompt } from "./rows.ts"

export interface PromptUseParts {
  readonly sandboxes: Pick<UsedSandboxes, "resume">
  readonly presence: Pick<Presence, "work">
}

/** The use that a prompt has of its sandbox. It lasts while the store fails, and until the prompt is over. */
export class PromptUse {
  readonly #parts: PromptUseParts
  #use: Use | undefined
  /** Resolves when the session keeps the sandbox. */
  #kept: Promise<void> | undefined

  constructor(parts: PromptUseParts) {
    this.#parts = parts
  }

  get isHeld(): boolean {
    return this.#use !== undefined
  }

  /** Takes over the use of the sandbox that the prompt was assigned to; undefined: it was not assigned. */
  begin(use: Use | undefined): void {
    this.#use = use
  }

  /** Takes the lease on the sandbox that the prompt was assigned to before. Fails where it is not to be used now. */
  async resume({ id, sandbox }: AssignedPrompt): Promise<void> {
    this.#use ??= await this.#parts.sandboxes.resume(sandbox, promptLease(id))
  }

  /** Makes the session keep the sandbox from now on, until the signal fires. */
  keep({ session }: OpenPrompt, signal: AbortSignal): void {
    this.#kept ??= this.#parts.presence.work(session, signal)
  }

  /** Ends after the processes that the prompt left running, and its session, have leases of their own. */
  async end(): Promise<void> {
    if (this.#use === undefined) return
    await Promise.all([this.#use.leave(), this.#kept])
    await this.#use.end()
  }
}
