/** The middle value, or the mean of the two middle ones if their number is even. */
export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = at(sorted, middle)
  return sorted.length % 2 === 1 ? upper : (at(sorted, middle - 1) + upper) / 2
}

/** The smallest sample that at least `percent` of all samples do not exceed (nearest rank). */
export function percentile(samples: readonly number[], percent: number): number {
  const sorted = [...samples].sort((a, b) => a - b)
  return at(sorted, Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1))
}

function at(sorted: readonly number[], index: number): number {
  const value = sorted[index]
  if (value === undefined) throw new RangeError("no samples")
  return value
}
