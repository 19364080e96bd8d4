import type { SystemIdentity } from "@berth/protocol/sandbox"
import { prepareSystem } from "./prepare.ts"
import type { PreparedSystem } from "./prepared.ts"

/** How long a tree counts as current without another look at the host: time for many creations at once. */
const FRESH_MS = 1_000

export interface Systems {
  /** Makes or finds a root directory for sandboxes on this system. */
  prepare(
    identity: SystemIdentity,
    mountTargets: readonly string[],
    signal: AbortSignal,
  ): Promise<PreparedSystem>
}

export interface SystemsOptions {
  readonly directory: string
  readonly init: string
  /** A clock of milliseconds that only grow. */
  readonly now?: () => number
}

/** Prepares systems, once for all concurrent callers. One caller's cancel does not stop it for the others. */
export const openSystems = ({
  directory,
  init,
  now = () => performance.now(),
}: SystemsOptions): Systems => {
  const recent = new Map<
    string,
    { readonly at: number; readonly system: Promise<PreparedSystem> }
  >()
  const never = new AbortController().signal

  return {
    async prepare(identity, mountTargets, signal) {
      signal.throwIfAborted()
      const at = now()
      for (const [key, one] of recent) if (at - one.at >= FRESH_MS) recent.delete(key)
      const key = JSON.stringify([identity, mountTargets])
      const known = recent.get(key)
      // Set before the first await, so that concurrent callers share one attempt.
      const system =
        known?.system ?? prepareSystem({ identity, directory, init, mountTargets }, never)
      if (known === undefined) recent.set(key, { at, system })
      try {
        const prepared = await system
        signal.throwIfAborted()
        return prepared
      } catch (thrown) {
        if (recent.get(key)?.system === system) recent.delete(key)
        throw thrown
      }
    },
  }
}
