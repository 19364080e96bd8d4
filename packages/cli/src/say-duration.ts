const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
] as const

/** A duration in its two largest units. */
export const sayDuration = (ms: number): string => {
  const seconds = Math.floor(ms / 1000)
  const [unit, size] = UNITS.find(([, unitSize]) => seconds >= unitSize) ?? ["s", 1]
  if (size === 1) return `${seconds} s`
  const [below, belowSize] = UNITS[UNITS.findIndex(([name]) => name === unit) + 1] ?? ["s", 1]
  const rest = Math.floor((seconds % size) / belowSize)
  return `${Math.floor(seconds / size)} ${unit} ${rest} ${below}`
}
