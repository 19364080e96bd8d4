import { SandboxSpec } from "@berth/protocol/sandbox"
import { z } from "zod"

/** The operation of a crashing server, and the step at which it dies; without a step it lives. */
export const CrashPlan = z.strictObject({
  directory: z.string(),
  spec: SandboxSpec,
  operation: z.enum(["create", "start", "remove"]),
  dieAt: z.string().optional(),
})
export type CrashPlan = z.infer<typeof CrashPlan>
