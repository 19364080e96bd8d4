import { z } from "zod"
import { BootEnding, BootMode, BootTrace } from "./boot.ts"
import { SandboxStatus } from "./sandbox.ts"
import { WorkspaceSpec } from "./workspace.ts"

/** What `POST /v1/sandboxes` takes. */
export const CreateSandbox = z.strictObject({
  workspace: WorkspaceSpec,
  mode: BootMode.default("fresh"),
})
export type CreateSandbox = z.infer<typeof CreateSandbox>
export type CreateSandboxInput = z.input<typeof CreateSandbox>

/** How far a boot has come. `GET /v1/sandboxes/{id}/boot` answers with its whole trace. */
export const BootSummary = z.object({
  mode: BootMode,
  outcome: BootTrace.shape.outcome,
  /** Since the boot's start; null: prompts do not pass yet. */
  readyAtMs: BootTrace.shape.readyAtMs,
  /** Why it ended early. */
  ending: z.object({ step: BootEnding.shape.step, reason: BootEnding.shape.reason }).nullable(),
})
export type BootSummary = z.infer<typeof BootSummary>

/** What `GET /v1/sandboxes/{id}` answers. With `?wait=MS`, when the boot is over or that time is. */
export const SandboxView = z.object({
  ...SandboxStatus.shape,
  /** null: not known. The sandbox does not answer, or has told nothing yet. */
  boot: BootSummary.nullable(),
})
export type SandboxView = z.infer<typeof SandboxView>

/** The longest that `?wait` may be: below what clients and whatever lies between give a request. */
export const MAX_WAIT_MS = 25_000

/** What `GET /v1/sandboxes` answers, oldest first. */
export const SandboxList = z.object({ sandboxes: z.array(SandboxView) })
export type SandboxList = z.infer<typeof SandboxList>

/** What a sandbox serves through `/v1/sandboxes/{id}/…`, by the first part of the path that follows. */
export const SANDBOX_FEATURES = ["commands", "files", "terminals", "ports", "git"] as const

/**
 * WebSockets of browsers cannot send an Authorization header, so the token may come as a subprotocol
 * `berth.bearer.TOKEN`, beside `berth`, which the server then answers with. Whoever comes this way does not see
 * a refused handshake either: a refusal is a connection with one text frame, a SocketRefusal, and its end. To those
 * who offer `berth.refused`, too, the server answers with that, so that they know before the frame.
 */
export const SUBPROTOCOL = "berth"
export const REFUSED_SUBPROTOCOL = "berth.refused"
export const BEARER_SUBPROTOCOL = "berth.bearer."

export const SocketRefusal = z.object({
  type: z.literal("refused"),
  error: z.object({
    code: z.string(),
    message: z.string(),
    details: z.record(z.string(), z.unknown()).default({}),
  }),
})
export type SocketRefusal = z.infer<typeof SocketRefusal>
