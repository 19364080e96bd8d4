import type { SandboxId } from "@berth/protocol/ids"
import type { Clock } from "../state/clock.ts"

/** How long each sandbox has been unused while this server runs: time before its start does not count. */
export class Idle {
  readonly #clock: Clock
  readonly #since = new Map<SandboxId, number>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Notes that the last use of a sandbox has just ended. */
  begin(sandbox: SandboxId): void {
    this.#since.set(sandbox, this.#clock.monotonicMs())
  }

  ms(sandbox: SandboxId): number {
    const now = this.#clock.monotonicMs()
    const since = this.#since.get(sandbox)
    if (since === undefined) this.#since.set(sandbox, now)
    return now - (since ?? now)
  }

  forget(sandbox: SandboxId): void {
    this.#since.delete(sandbox)
  }
}
