import type { SandboxId } from "@berth/protocol/ids"

/** Memory that is being taken back from paused sandboxes. Nobody waits for it, least of all whoever wakes one. */
export interface Reclaims {
  begin(sandbox: SandboxId): void
  /** It is about to run again, or to go. Twice is as good as once. */
  end(sandbox: SandboxId): void
  close(): void
}

export const openReclaims = (
  reclaim: (sandbox: SandboxId, signal: AbortSignal) => Promise<void>,
): Reclaims => {
  const running = new Map<SandboxId, AbortController>()
  const end = (sandbox: SandboxId) => {
    running.get(sandbox)?.abort()
    running.delete(sandbox)
  }
  return {
    begin: (sandbox) => {
      end(sandbox)
      const stop = new AbortController()
      running.set(sandbox, stop)
      // What the kernel does not give back stays with the sandbox, as it did before.
      void reclaim(sandbox, stop.signal)
        .catch(() => {})
        .finally(() => running.get(sandbox) === stop && running.delete(sandbox))
    },
    end,
    close: () => {
      for (const sandbox of running.keys()) end(sandbox)
    },
  }
}
