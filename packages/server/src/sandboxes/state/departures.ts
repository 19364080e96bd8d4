import type { SandboxId } from "@berth/protocol/ids"
import type { Rows } from "./rows.ts"

/** Lets callers wait until a sandbox is gone. */
export class Departures {
  readonly #rows: Rows
  readonly #waiting = new Map<SandboxId, Set<() => void>>()

  constructor(rows: Rows) {
    this.#rows = rows
  }

  /** Wakes the callers that wait for a sandbox which the store now has as gone. */
  tell(sandbox: SandboxId): void {
    for (const resolve of this.#waiting.get(sandbox) ?? []) resolve()
    this.#waiting.delete(sandbox)
  }

  /**
   * Resolves when the store has the sandbox as gone, or as quarantined, in which nothing runs either. Rejects when the
   * signal fires before.
   */
  async of(sandbox: SandboxId, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiters = this.#waiting.get(sandbox) ?? new Set()
    this.#waiting.set(sandbox, waiters.add(resolve))
    const onAbort = () => reject(signal.reason)
    signal.addEventListener("abort", onAbort)
    if (signal.aborted) onAbort()
    try {
      const row = await this.#rows.get(sandbox)
      const isOver = row === undefined || row.phase === "gone" || row.phase === "quarantined"
      if (!isOver) await promise
    } finally {
      promise.catch(() => {})
      signal.removeEventListener("abort", onAbort)
      waiters.delete(resolve)
    }
  }
}
