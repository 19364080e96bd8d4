import { z } from "zod"

const UNIT_MS = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** A time as people write it: a whole number and its unit, or 0. */
export const Duration = z
  .string()
  .regex(
    /^(?:0|[1-9]\d{0,5}[smhd])$/,
    "must be a whole number with s, m, h or d, such as 90s or 2h",
  )
  .brand<"Duration">()
export type Duration = z.infer<typeof Duration>

export const durationMs = (duration: Duration): number =>
  duration === "0"
    ? 0
    : Number(duration.slice(0, -1)) * UNIT_MS[duration.slice(-1) as keyof typeof UNIT_MS]
