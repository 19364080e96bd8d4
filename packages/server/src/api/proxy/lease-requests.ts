import type { Claim } from "../../sandboxes/requests/use.ts"
import type { Feature } from "./target.ts"

/** A preview that nobody looks at is not in use, even if its connection is open. */
export const QUIET_PREVIEW_MS = 5 * 60_000

/** The lease requests of calls to a sandbox, with words for people who ask why it lives. */
const LEASE_REQUESTS: Readonly<Record<Feature, Claim>> = {
  commands: { kind: "exec", source: "call", holder: "a running command" },
  files: { kind: "exec", source: "call", holder: "a call for files" },
  git: { kind: "exec", source: "call", holder: "a call for git" },
  terminals: { kind: "terminal", source: "call", holder: "somebody at a terminal" },
  ports: {
    kind: "preview",
    source: "call",
    holder: "a connection to a port",
    ttlMs: QUIET_PREVIEW_MS,
  },
}

export const leaseRequestOf = (feature: Feature): Claim => LEASE_REQUESTS[feature]

/** Whether the call may leave something running: a command in the background, a terminal. */
export const mayLeave = (method: string | undefined, feature: Feature): boolean =>
  method === "POST" && (feature === "commands" || feature === "terminals")
