/** A range of bytes, from `start` to `end`, exclusive. */
export interface ByteRange {
  readonly start: number
  readonly end: number
}

/**
 * Parses a range header. Returns undefined for the whole file, also for several ranges, and for units other than bytes.
 */
export const parseRange = (
  header: string | undefined,
  size: number,
): ByteRange | "unsatisfiable" | undefined => {
  const [, first = "", last = ""] = /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header ?? "") ?? []
  if (first === "" && last === "") return undefined
  if (first === "") {
    const length = Math.min(Number(last), size)
    return length === 0 ? "unsatisfiable" : { start: size - length, end: size }
  }
  const start = Number(first)
  const end = last === "" ? size : Math.min(Number(last) + 1, size)
  if (last !== "" && Number(last) < start) return undefined
  return start >= size ? "unsatisfiable" : { start, end }
}
