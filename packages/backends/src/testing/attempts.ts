import type { Attempt } from "./attempt.ts"
import { ENDLESS, FILLING_ATTEMPTS } from "./escapes/exhaustion.ts"
import { HOST_ATTEMPTS } from "./escapes/host.ts"
import { KERNEL_ATTEMPTS } from "./escapes/kernel.ts"
import { NEIGHBOUR_ATTEMPTS } from "./escapes/neighbour.ts"
import { LISTED, NONE_ATTEMPTS, OPEN_ATTEMPTS } from "./escapes/network.ts"
import { PRIVILEGE_ATTEMPTS } from "./escapes/privileges.ts"
import { SYSTEM_ATTEMPTS } from "./escapes/system.ts"
import { WATCHER } from "./escapes/watching.ts"

/** The attempts of a sandbox without a network. */
export const CLOSED_ATTEMPTS: readonly Attempt[] = [
  ...HOST_ATTEMPTS,
  ...SYSTEM_ATTEMPTS,
  ...KERNEL_ATTEMPTS,
  ...PRIVILEGE_ATTEMPTS,
  ...NEIGHBOUR_ATTEMPTS,
  ...NONE_ATTEMPTS,
]

/** All attempts, as docs/SECURITY.md lists them. */
export const NAMED: Readonly<
  Record<string, readonly Pick<Attempt, "name" | "stoppedBy" | "sees">[]>
> = {
  "The host's files, processes and devices": HOST_ATTEMPTS,
  "The system, and what is read-only": SYSTEM_ATTEMPTS,
  "The kernel": KERNEL_ATTEMPTS,
  "Rights and limits": PRIVILEGE_ATTEMPTS,
  "Other sandboxes": [...NEIGHBOUR_ATTEMPTS, WATCHER],
  "The network, with the policy `none`": NONE_ATTEMPTS,
  "The network, with the policy `open`": [...OPEN_ATTEMPTS, LISTED],
  "More than its share": [...FILLING_ATTEMPTS, ...ENDLESS],
}
