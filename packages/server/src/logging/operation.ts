import { performance } from "node:perf_hooks"
import { BerthError } from "@berth/protocol/errors"
import type { Logger } from "./logger.ts"

/** `noun.verb`: `sandbox.create` */
export type OperationName = `${string}.${string}`

export type Outcome = "ok" | "failed" | "cancelled"

/** Facts about the operation: ids first of all, then figures that explain its duration. */
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
  try {
    const result = await run((fields) => {
      noted = { ...noted, ...fields }
    })
    writeOperation(log, "info", { ...noted, op, outcome: "ok", durationMs: since(startedMs) })
    return result
  } catch (err) {
    const { level, ...said } = failure(err)
    writeOperation(log, level, { ...noted, op, ...said, durationMs: since(startedMs), err })
    throw err
  }
}

/** Writes an operation's line, for operations that do not end where a function does. */
export const writeOperation = (
  log: Logger,
  level: "debug" | "info" | "warn" | "error" | "fatal",
  line: { op: OperationName; outcome: Outcome; durationMs: number; err?: unknown } & Record<
    string,
    unknown
  >,
): void => {
  const durationMs = Math.round(line.durationMs * 10) / 10
  log[level]({ ...line, durationMs }, `${line.op} ${line.outcome}`)
}

const since = (startedMs: number): number => performance.now() - startedMs

/** The level and outcome of a failure. A caller's cancel or mistake is no failure of ours. */
const failure = (error: unknown) => {
  if (!(error instanceof BerthError)) {
    return { level: "error", outcome: "failed", code: "internal" } as const
  }
  const { code, status } = error
  if (code === "cancelled") return { level: "info", outcome: "cancelled", code } as const
  return { level: status < 500 ? "warn" : "error", outcome: "failed", code } as const
}
