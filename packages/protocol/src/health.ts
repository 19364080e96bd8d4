import { z } from "zod"
import { InstallationId } from "./ids.ts"

/** The answer of `GET /v1/health`, for everyone on this machine: enough to tell that a server lives. */
export const Health = z.object({
  version: z.string(),
  pid: z.int().positive(),
  uptimeMs: z.number().nonnegative(),
})
export type Health = z.infer<typeof Health>

/** The answer of `GET /v1/status`, for those who have the token. */
export const ServerStatus = Health.extend({
  startedAt: z.iso.datetime(),
  installationId: InstallationId,
  dataDir: z.string(),
  backend: z.string(),
})
export type ServerStatus = z.infer<typeof ServerStatus>
