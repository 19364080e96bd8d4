import { z } from "zod"
import { LeaseId, SandboxId } from "./ids.ts"

/** The kinds of use that keep a sandbox. */
export const LeaseKind = z.enum(["prompt", "exec", "terminal", "preview", "session", "hold"])
export type LeaseKind = z.infer<typeof LeaseKind>

/**
 * Whether leases of this kind end by time. Prompt and exec leases end with their result; the others are renewed by
 * their holder.
 */
export const expires = (kind: LeaseKind): boolean => kind !== "prompt" && kind !== "exec"

/**
 * The part of Berth that took a lease, and so ends it:
 *
 * call      a call through the API, for as long as it lasts
 * fork      a fork of the sandbox, until its files are copied
 * export    an export of its workspace's files, until they are copied
 * prompt    the server, while it runs a prompt
 * session   a session, between its prompts
 * watcher   whoever reads a session's events
 * sandbox   the sandbox: its supervisor says that something lives in it
 * person    a person who holds it
 */
export const LeaseSource = z.enum([
  "call",
  "fork",
  "export",
  "prompt",
  "session",
  "watcher",
  "sandbox",
  "person",
])
export type LeaseSource = z.infer<typeof LeaseSource>

export const Lease = z.strictObject({
  id: LeaseId,
  sandbox: SandboxId,
  kind: LeaseKind,
  source: LeaseSource,
  /** The id of the prompt, session, command or terminal that the lease is for. null: its source says enough. */
  subject: z.string().min(1).max(200).nullable(),
  /** The lease keeps the sandbox from what Berth does by itself, and gives way to whatever somebody asks for. */
  yields: z.boolean(),
  /** The holder, in words for people. Nothing is decided by them. */
  holder: z.string().min(1).max(200),
  acquiredAt: z.iso.datetime(),
  expiresAt: z.iso.datetime().nullable(),
})
export type Lease = z.infer<typeof Lease>

/** The leases that make a sandbox in use: those that do not yield. */
export const usesAmong = <Held extends Pick<Lease, "yields">>(leases: readonly Held[]): Held[] =>
  leases.filter(({ yields }) => !yields)

/** The leases that only keep a sandbox. */
export const keepsAmong = <Held extends Pick<Lease, "yields">>(leases: readonly Held[]): Held[] =>
  leases.filter(({ yields }) => yields)

/** The user of a sandbox by this lease, in words. */
export const userOf = ({ kind, holder }: Pick<Lease, "kind" | "holder">): string =>
  kind === "hold" ? `a hold of ${holder}` : holder
