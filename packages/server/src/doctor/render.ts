import { styleText } from "node:util"
import type { DoctorCheck, DoctorReport, DoctorStatus } from "@berth/protocol/doctor"

const COLORS = { ok: "green", degraded: "yellow", missing: "red" } as const

const VERDICTS: Record<DoctorStatus, string> = {
  ok: "This host has everything Berth uses.",
  degraded: "Berth runs on this host, with something lost: see the fixes above.",
  missing: "Something that Berth needs is missing on this host: see the fixes above.",
}

/** The report as a table for people, each lack with its reason and its fix. Ends with a newline. */
export const renderReport = (report: DoctorReport, { color }: { color: boolean }): string => {
  const paint: Paint = color
    ? (format, text) => styleText(format, text, { validateStream: false })
    : (_, text) => text
  const nameWidth = Math.max(0, ...report.checks.map(({ name }) => name.length))
  const rows = report.checks.flatMap((check) => renderCheck(check, nameWidth, paint))
  const verdict = paint(COLORS[report.status], VERDICTS[report.status])
  return `${[...rows, "", verdict].join("\n")}\n`
}

type Paint = (format: (typeof COLORS)[DoctorStatus] | "bold" | "dim", text: string) => string

const STATUS_WIDTH = Math.max(...Object.keys(COLORS).map((status) => status.length))

const renderCheck = (check: DoctorCheck, nameWidth: number, paint: Paint): string[] => {
  const status = paint(COLORS[check.status], check.status.padEnd(STATUS_WIDTH))
  const row = `${status}  ${paint("bold", check.name.padEnd(nameWidth))}  ${check.found}`
  if (check.status === "ok") return [row]
  const indent = " ".repeat(STATUS_WIDTH + nameWidth + 4)
  return [row, `${indent}${paint("dim", `why: ${check.why}`)}`, `${indent}fix: ${check.fix}`]
}
