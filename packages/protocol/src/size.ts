import { z } from "zod"

const UNIT_BYTES = { M: 1e6, G: 1e9, T: 1e12 } as const

/** A size as people write it: a whole number and its unit, or 0. */
export const Size = z
  .string()
  .regex(/^(?:0|[1-9]\d{0,5}[MGT])$/, "must be a whole number with M, G or T, such as 500M or 20G")
  .brand<"Size">()
export type Size = z.infer<typeof Size>

export const sizeBytes = (size: Size): number =>
  size === "0"
    ? 0
    : Number(size.slice(0, -1)) * UNIT_BYTES[size.slice(-1) as keyof typeof UNIT_BYTES]
