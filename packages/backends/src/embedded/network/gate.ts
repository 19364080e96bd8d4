import type { Names } from "./names.ts"

export type Hook = "forward" | "input"

/**
 * A chain of the host's own that may refuse packets that our table accepts: a packet must pass every chain of a hook.
 * Docker, for one, sets the policy of iptables' FORWARD to DROP.
 */
export interface Gate {
  readonly hook: Hook
  /** Lets our packets through if the chain's end refuses them. Packets that its own rules refuse stay refused. */
  open(names: Names): Promise<void>
  /** Removes the rules that `open` added, also those of an earlier server. */
  close(names: Names): Promise<void>
}
