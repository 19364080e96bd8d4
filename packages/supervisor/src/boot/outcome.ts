import type { BootError, StepOutcome } from "@berth/protocol/boot"
import type { BerthError } from "@berth/protocol/errors"
import type { Result } from "./attempt.ts"
import { errorOf, wordsOf } from "./record.ts"

export interface Ended {
  readonly result: Result
  /** The reason if the step's signal fired before it had ended. */
  readonly cancelledFor: BerthError | undefined
  /** The last progress that the step reported. */
  readonly progress: string
  readonly cancelGraceMs: number
}

export interface Outcome {
  readonly state: StepOutcome
  readonly detail: string
  readonly error: BootError | null
  readonly satisfied: boolean
}

/**
 * Derives a step's outcome from how it ended. A step that finished although it was cancelled did finish; one that
 * finished after its time limit has failed.
 */
export const outcomeOf = ({ result, cancelledFor, progress, cancelGraceMs }: Ended): Outcome => {
  const isLate = cancelledFor?.code === "deadline.exceeded"
  if (result.kind === "reported" && !isLate) {
    const { report } = result
    const error = null
    return "did" in report
      ? { state: "succeeded", detail: report.did, error, satisfied: true }
      : { state: "skipped", detail: report.skipped, error, satisfied: true }
  }
  if (result.kind === "threw" && cancelledFor === undefined) {
    const { thrown } = result
    return { state: "failed", detail: wordsOf(thrown), error: errorOf(thrown), satisfied: false }
  }
  const reason = cancelledFor as BerthError
  const parts = [
    reason.message,
    progress === "" ? "" : `it had come as far as: ${progress}`,
    afterwards(result, reason, cancelGraceMs),
  ]
  return {
    state: isLate ? "failed" : "cancelled",
    detail: parts.filter((part) => part !== "").join("; "),
    error: isLate ? errorOf(reason) : null,
    satisfied: false,
  }
}

/** Describes how the step reacted to its signal; empty if it just ended. */
const afterwards = (result: Result, reason: BerthError, cancelGraceMs: number): string => {
  switch (result.kind) {
    case "abandoned":
      return `it ignored its cancellation for ${cancelGraceMs} ms and was left to itself`
    case "reported":
      return `it ended later: ${"did" in result.report ? result.report.did : result.report.skipped}`
    case "threw": {
      const words = wordsOf(result.thrown)
      const isEcho =
        result.thrown === reason || words === reason.message || isAbortError(result.thrown)
      return isEcho ? "" : `it said: ${words}`
    }
  }
}

const isAbortError = (thrown: unknown): boolean =>
  thrown instanceof Error &&
  (thrown.name === "AbortError" || ("code" in thrown && thrown.code === "cancelled"))
