import type { SandboxId } from "@berth/protocol/ids"

/** Takes memory back from paused sandboxes, in the background: a sandbox that is woken does not wait for it. */
export interface Reclaims {
  begin(sandbox: SandboxId): void
  /** Called when the sandbox is about to run again, or to be removed. Idempotent. */
  end(sandbox: SandboxId): void
  close(): void
}

/** A sandbox that is halted for a snapshot runs again before this. */
export const RECLAIM_AFTER_MS = 10_000

export const openReclaims = (
  reclaim: (sandbox: SandboxId, signal: AbortSignal) => Promise<void>,
): Reclaims => {
  const paused = new Map<SandboxId, AbortController>()
  const end = (sandbox: SandboxId) => {
    paused.get(sandbox)?.abort()
    paused.delete(sandbox)
  }
  return {
    begin: (sandbox) => {
      end(sandbox)
      const stop = new AbortController()
      paused.set(sandbox, stop)
      const timer = setTimeout(() => {
        // Memory that the kernel does not give back stays with the sandbox, as before.
        reclaim(sandbox, stop.signal).catch(() => {})
      }, RECLAIM_AFTER_MS).unref()
      stop.signal.addEventListener("abort", () => clearTimeout(timer))
    },
    end,
    close: () => {
      for (const sandbox of paused.keys()) end(sandbox)
    },
  }
}
