/** Like inColumns, with the names of the columns above them where a person reads the output. */
export const asTable = (
  names: readonly string[],
  rows: readonly (readonly string[])[],
  isShown = process.stdout.isTTY === true,
): string => inColumns(isShown ? [names.map((name) => name.toUpperCase()), ...rows] : rows)

/** Lines whose cells stand below each other. Line breaks in a cell are removed: others may have written it. */
export const inColumns = (given: readonly (readonly string[])[]): string => {
  const rows = given.map((row) => row.map((cell) => cell.replaceAll(/\s+/g, " ")))
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  )
  return rows
    .map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  "))
    .map((line) => `${line.trimEnd()}\n`)
    .join("")
}
