import { keepsAmong, type Lease, userOf, usesAmong } from "@berth/protocol/lease"

/** Only the first few are named: people read the line. */
const MAX_NAMED = 2

/** The users of a sandbox, or those whom it is kept for, in a few words; empty if there are none. */
export const sayUse = (leases: readonly Lease[]): string => {
  const [uses, keeps] = [usesAmong(leases), keepsAmong(leases)]
  if (uses.length > 0) return `used by ${named(uses)}`
  return keeps.length > 0 ? `kept for ${named(keeps)}` : ""
}

const named = (leases: readonly Lease[]): string => {
  const names = leases.slice(0, MAX_NAMED).map(userOf)
  const others = leases.length - names.length
  return `${names.join(", ")}${others > 0 ? ` and ${others} more` : ""}`
}
