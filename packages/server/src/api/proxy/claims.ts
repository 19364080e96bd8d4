import type { Claim } from "../../sandboxes/use.ts"
import type { Feature } from "./target.ts"

/** A preview that nobody looks at is not in use, though its connection stands. */
export const QUIET_PREVIEW_MS = 5 * 60_000

/** How those who call a sandbox use it, in words for whoever asks why it lives. */
const CLAIMS: Readonly<Record<Feature, Claim>> = {
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

export const claimOf = (feature: Feature): Claim => CLAIMS[feature]

/** Whether what was asked for may go on after the call: a command in the background, a terminal. */
export const mayLeave = (method: string | undefined, feature: Feature): boolean =>
  method === "POST" && (feature === "commands" || feature === "terminals")
