import type { Names } from "./names.ts"

export type Hook = "forward" | "input"

/**
 * A chain of the host's own that may refuse what our table accepts: a packet must pass every chain of a hook.
 * Docker, for one, sets the policy of iptables' FORWARD to DROP.
 */
export interface Gate {
  readonly hook: Hook
  /** Lets our packets through if the chain's end refuses them; what its own rules refuse stays refused. */
  open(names: Names): Promise<void>
  /** Removes what `open` added, now or in an earlier life. */
  close(names: Names): Promise<void>
}
