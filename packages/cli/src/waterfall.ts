import type { BootStep, BootTrace } from "@berth/protocol/boot"

const BAR_COLUMNS = 40
const MARKS: Readonly<Record<BootStep["state"], string>> = {
  pending: "·",
  running: "…",
  succeeded: "✓",
  skipped: "–",
  failed: "✗",
  cancelled: "!",
}
/** The lines shown of a failed step's output: enough to see why, and no more than a screen. */
const LAST_LINES = 20

/** A boot as a waterfall: a line a step, with a bar for when it ran. Bars above each other ran at the same time. */
export const renderWaterfall = (trace: BootTrace, now: Date): string => {
  const nowMs = trace.endedAtMs ?? Math.max(0, now.getTime() - Date.parse(trace.startedAt))
  const spanMs = Math.max(1, nowMs, ...trace.steps.map(({ endedAtMs }) => endedAtMs ?? 0))
  const nameColumns = Math.max(...trace.steps.map(({ name }) => name.length), 0)
  return [
    headline(trace),
    ...trace.steps.map(
      (step) =>
        `${MARKS[step.state]} ${step.name.padEnd(nameColumns)} ${bar(step, spanMs)} ${times(step, nowMs)}  ${oneLine(step.detail)}`,
    ),
    ...trace.warnings.map(({ message }) => `warning: ${oneLine(message)}`),
    ...ending(trace),
  ]
    .map((line) => `${line.trimEnd()}\n`)
    .join("")
}

const headline = ({ mode, outcome, readyAtMs, endedAtMs, startedAt }: BootTrace): string => {
  const readiness = readyAtMs === null ? "never ready" : `ready after ${seconds(readyAtMs)}`
  const end = endedAtMs === null ? "under way" : `${outcome} after ${seconds(endedAtMs)}`
  return `${mode} boot of ${startedAt}: ${readiness}, ${end}`
}

/** The bar of a step, at least one column wide, so that a step of a millisecond is seen, too. */
const bar = ({ startedAtMs, endedAtMs }: BootStep, spanMs: number): string => {
  if (startedAtMs === null) return " ".repeat(BAR_COLUMNS)
  const column = (atMs: number) => Math.round((atMs / spanMs) * BAR_COLUMNS)
  const from = Math.min(column(startedAtMs), BAR_COLUMNS - 1)
  const to = Math.max(from + 1, column(endedAtMs ?? spanMs))
  return `${" ".repeat(from)}${"█".repeat(to - from)}`.padEnd(BAR_COLUMNS)
}

const times = ({ startedAtMs, endedAtMs }: BootStep, nowMs: number): string => {
  if (startedAtMs === null) return "".padStart(8)
  return seconds(Math.max(0, (endedAtMs ?? nowMs) - startedAtMs)).padStart(8)
}

const ending = ({ ending: end, steps }: BootTrace): string[] => {
  if (end === null) return []
  const failed = steps.find(({ name }) => name === end.step)
  const output = failed?.lastOutput.trimEnd().split("\n").slice(-LAST_LINES) ?? []
  const said =
    output.join("") === "" ? [] : ["its last output:", ...output.map((line) => `  ${line}`)]
  const hint = failed?.error?.hint ? [`hint: ${oneLine(failed.error.hint)}`] : []
  return [`it ended early: ${oneLine(end.reason)}`, ...said, ...hint]
}

const seconds = (ms: number): string =>
  ms < 1000 ? `${ms.toFixed(1)} ms` : `${(ms / 1000).toFixed(2)} s`

const oneLine = (text: string): string => text.replaceAll(/\s+/g, " ")
