import { z } from "zod"
import { LeaseId, SandboxId, type SessionId } from "./ids.ts"

/** What can keep a sandbox in use. */
export const LeaseKind = z.enum(["prompt", "exec", "terminal", "preview", "session", "hold"])
export type LeaseKind = z.infer<typeof LeaseKind>

/** Prompt and exec leases end with their result, never by time; the others are renewed by their holder. */
export const expires = (kind: LeaseKind): boolean => kind !== "prompt" && kind !== "exec"

export const Lease = z.strictObject({
  id: LeaseId,
  sandbox: SandboxId,
  kind: LeaseKind,
  /** Who holds it, in words a person understands: a prompt's id, a terminal's id, a user's name. */
  holder: z.string().min(1).max(200),
  acquiredAt: z.iso.datetime(),
  expiresAt: z.iso.datetime().nullable(),
})
export type Lease = z.infer<typeof Lease>

/** Who uses a sandbox by this lease, for whoever asks. */
export const userOf = ({ kind, holder }: Pick<Lease, "kind" | "holder">): string =>
  kind === "hold" ? `a hold of ${holder}` : holder

/** Words that nobody else uses who holds a lease of that kind. */
const THINKING = "session "

/** Whoever may think about the next prompt of a session. */
export const thinkingHolder = (session: SessionId): string => `${THINKING}${session}`

/**
 * A session keeps its sandbox between its prompts, from all that happens by itself. Nothing of it runs then, and
 * it can go on in another: a person who wants the sandbox ended need not wait for it.
 */
export const isThinking = ({ kind, holder }: Pick<Lease, "kind" | "holder">): boolean =>
  kind === "session" && holder.startsWith(THINKING)
