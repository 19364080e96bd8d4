import { z } from "zod"

const MIB = 1024 * 1024
const GIB = 1024 * MIB

/** The resources that a sandbox may use. A limit that this host cannot enforce is named in the sandbox's status. */
export const Limits = z.strictObject({
  memoryBytes: z
    .int()
    .min(32 * MIB)
    .default(4 * GIB),
  /** CPU time a second: 1.5 is one and a half cores. */
  cpus: z.number().min(0.05).max(1024).default(2),
  /** Processes and threads together. */
  pids: z.int().min(16).max(4_194_304).default(2048),
  openFiles: z.int().min(64).max(1_048_576).default(16_384),
  /** The size of /tmp and of /run, which live in memory. */
  tmpBytes: z.int().min(MIB).default(GIB),
})
export type Limits = z.infer<typeof Limits>

/**
 * The most that a workspace's own files may take of the disk: everything written since its last frozen layer, and
 * caches. They are no part of a sandbox's config: a change applies at once to the running sandbox.
 */
const DiskLimits = z.strictObject({
  diskBytes: z.int().min(16_000_000).optional(),
  /** The number of files, directories and links. */
  diskInodes: z.int().min(1_000).optional(),
})

/** The limits of a workspace's sandbox and of its files. */
export const WorkspaceLimits = z.strictObject({ ...Limits.shape, ...DiskLimits.shape })
export type WorkspaceLimits = z.infer<typeof WorkspaceLimits>

export const LimitName = z.enum([
  ...(["memoryBytes", "cpus", "pids", "openFiles", "tmpBytes", "diskBytes", "diskInodes"] as const),
])
export type LimitName = z.infer<typeof LimitName>
