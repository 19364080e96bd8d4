import { type Lease, userOf } from "@berth/protocol/lease"

/** The first few: a line is read by people. */
const MAX_NAMED = 2

/** Who uses a sandbox, in a few words; empty: nobody. */
export const usersOf = (leases: readonly Pick<Lease, "kind" | "holder">[]): string => {
  const named = leases.slice(0, MAX_NAMED).map(userOf)
  const others = leases.length - named.length
  return `${named.join(", ")}${others > 0 ? ` and ${others} more` : ""}`
}
