import type { StepFacts } from "@berth/protocol/boot"

/** The report of a step that is done: what it did, never what was planned. */
export type StepReport =
  | { readonly did: string; readonly facts?: StepFacts }
  /** The step had nothing to do. Steps that need it go on. */
  | { readonly skipped: string; readonly facts?: StepFacts }

/** Lets a step report while it runs. Calls after its end are ignored. */
export interface Tell {
  /** Reports what has been done so far. The latest is in the trace if the step is cut short. */
  progress(detail: string): void
  /** Passes on the output of the step's programs: shown live within bounds, its end kept for the error. */
  output(chunk: Buffer): void
  /** Reports something that the user should know, and that does not fail the step. */
  warn(message: string): void
}

/** A step of a boot, as data. */
export interface Step<Context> {
  readonly name: string
  /** The names of the steps that must have succeeded, or had nothing to do, before this one starts. */
  readonly needs: readonly string[]
  /** Whether the boot fails if the step fails. The failure of an optional step is a warning. */
  readonly required: boolean
  readonly timeoutMs: number
  /** Runs the step. Must end soon after the signal fires, with nothing of its own running. */
  run(context: Context, signal: AbortSignal, tell: Tell): Promise<StepReport>
}
