import { z } from "zod"
import type { SandboxStats } from "../backend.ts"

/** The engine leaves the numbers out for a container that does not run. */
export const StatsAnswer = z.object({
  memory_stats: z.object({ usage: z.number().optional() }).default({}),
  cpu_stats: z.object({ cpu_usage: z.object({ total_usage: z.number() }).optional() }).default({}),
  pids_stats: z.object({ current: z.number().optional() }).default({}),
})

const NANOSECONDS = 1_000_000_000

export const readStats = ({
  memory_stats,
  cpu_stats,
  pids_stats,
}: z.infer<typeof StatsAnswer>): SandboxStats => ({
  memoryBytes: memory_stats.usage,
  cpuSeconds: cpu_stats.cpu_usage && cpu_stats.cpu_usage.total_usage / NANOSECONDS,
  pids: pids_stats.current,
})
