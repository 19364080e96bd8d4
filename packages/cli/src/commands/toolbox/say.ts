import type { ToolboxEntry, ToolboxProblem } from "@berth/protocol/toolbox"

/** The most problems that are shown: more say nothing new, and `--json` has them all. */
const MAX_PROBLEMS = 20

/** A line for each entry. */
export const sayEntries = (entries: readonly ToolboxEntry[]): string => {
  const width = Math.max(...entries.map(({ name }) => name.length))
  return entries.map(({ name, version }) => `  ${name.padEnd(width)}  ${version}\n`).join("")
}

export const sayProblems = (problems: readonly ToolboxProblem[]): string => {
  const more = problems.length - MAX_PROBLEMS
  const lines = problems.slice(0, MAX_PROBLEMS).map((problem) => `  ${sayProblem(problem)}\n`)
  return lines.join("") + (more > 0 ? `  and ${more} more: --json names them all\n` : "")
}

const WORDS: Readonly<Record<ToolboxProblem["problem"], string>> = {
  missing: "is missing",
  added: "was added",
  kind: "is something else",
  content: "has other contents",
  mode: "has another mode",
  owner: "belongs to somebody else",
  target: "leads elsewhere",
  manifest: "is not to be trusted",
}

const sayProblem = ({ path, problem, expected, found }: ToolboxProblem): string => {
  const facts = [expected && `expected ${expected}`, found && `found ${found}`].filter(Boolean)
  return `${path} ${WORDS[problem]}${facts.length === 0 ? "" : `: ${facts.join(", ")}`}`
}
