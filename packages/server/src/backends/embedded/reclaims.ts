import type { SandboxId } from "@berth/protocol/ids"

/** Memory that is taken back from paused sandboxes. Nobody waits for it, least of all whoever wakes one. */
export interface Reclaims {
  begin(sandbox: SandboxId): void
  /** It is about to run again, or to go. Twice is as good as once. */
  end(sandbox: SandboxId): void
  close(): void
}

/** One that is halted for a snapshot runs again before this. */
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
        // What the kernel does not give back stays with the sandbox, as it did before.
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
