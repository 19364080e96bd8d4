import { SandboxSpec } from "@berth/protocol/sandbox"
import { z } from "zod"

/** What a crashing server is to do, and where it dies; without a step it lives. */
export const CrashPlan = z.strictObject({
  directory: z.string(),
  spec: SandboxSpec,
  operation: z.enum(["create", "start", "remove"]),
  dieAt: z.string().optional(),
})
export type CrashPlan = z.infer<typeof CrashPlan>
