import type { Result } from "./judge.ts"

const COLUMNS = ["name", "ours", "other", "unit", "figure", "limit", "runs", "holds", "note"]
const NUMBERS = new Set(["ours", "other", "figure", "limit", "runs"])

/** Renders the results as text, with numbers aligned to the right. */
export function renderTable(results: readonly Result[]): string {
  const rows = [COLUMNS, ...results.map(cells)]
  const widths = COLUMNS.map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  )
  return rows
    .map((row) =>
      row
        .map((cell, column) => {
          const width = widths[column] ?? 0
          return NUMBERS.has(COLUMNS[column] ?? "") ? cell.padStart(width) : cell.padEnd(width)
        })
        .join("  ")
        .trimEnd(),
    )
    .join("\n")
}

const cells = ({ name, ours, other, unit, ratio, limit, runs, holds, note }: Result) => [
  name,
  number(ours),
  number(other),
  unit,
  number(ratio),
  String(limit),
  String(runs),
  holds ? "yes" : "NO",
  note,
]

const number = (value: number | null) => (value === null ? "–" : String(value))
