import { performance } from "node:perf_hooks"
import { BerthError } from "@berth/protocol/errors"
import type { Logger } from "./logger.ts"

/** `noun.verb`: `sandbox.create` */
export type OperationName = `${string}.${string}`

export type Outcome = "ok" | "failed" | "cancelled"

/** What the operation was about: ids first of all, then figures that explain its duration. */
export type OperationFields = Readonly<Record<string, string | number | boolean | undefined>>

/** Runs an operation and writes its one line: name, outcome, duration, ids, and the error if it failed. */
export const operation = async <T>(
  log: Logger,
  op: OperationName,
  ids: OperationFields,
  run: (note: (fields: OperationFields) => void) => T | Promise<T>,
): Promise<T> => {
  const startedMs = performance.now()
  let noted: OperationFields = ids
  const line = (outcome: Outcome) => ({
    ...noted,
    op,
    outcome,
    durationMs: Math.round((performance.now() - startedMs) * 10) / 10,
  })
  try {
    const result = await run((fields) => {
      noted = { ...noted, ...fields }
    })
    log.info(line("ok"), `${op} ok`)
    return result
  } catch (err) {
    const { level, outcome, code } = failure(err)
    log[level]({ ...line(outcome), code, err }, `${op} ${outcome}`)
    throw err
  }
}

/** What the caller asked for or got wrong is no failure of ours. */
const failure = (error: unknown) => {
  if (!(error instanceof BerthError)) {
    return { level: "error", outcome: "failed", code: "internal" } as const
  }
  const { code, status } = error
  if (code === "cancelled") return { level: "info", outcome: "cancelled", code } as const
  return { level: status < 500 ? "warn" : "error", outcome: "failed", code } as const
}
