/** The name that was probably meant, or undefined when none is close. */
export const nearest = (given: string, names: readonly string[]): string | undefined => {
  const wanted = plain(given)
  const closest = names
    .map((name) => ({ name, distance: editDistance(wanted, plain(name)) }))
    .sort((a, b) => a.distance - b.distance)[0]
  return closest !== undefined && closest.distance <= mistakesAllowed(wanted)
    ? closest.name
    : undefined
}

/** The name without case and separators, which people mix up first: `data_dir` is `dataDir`. */
const plain = (name: string): string => name.toLowerCase().replaceAll(/[-_]/g, "")

const mistakesAllowed = (name: string): number => Math.max(1, Math.floor(name.length / 3))

/** The number of insertions, deletions, replacements and swaps of neighbours that turn one string into the other. */
const editDistance = (a: string, b: string): number => {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, column) => column)]
  const at = (row: number, column: number): number => rows[row]?.[column] ?? row + column
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    rows.push(current)
    for (let column = 1; column <= b.length; column++) {
      const same = a[row - 1] === b[column - 1]
      const swapped =
        row > 1 && column > 1 && a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1]
      current[column] = Math.min(
        at(row - 1, column) + 1,
        at(row, column - 1) + 1,
        at(row - 1, column - 1) + (same ? 0 : 1),
        swapped ? at(row - 2, column - 2) + 1 : Number.POSITIVE_INFINITY,
      )
    }
  }
  return at(a.length, b.length)
}
