import type { StepFacts } from "@berth/protocol/boot"

/** What a step did, told when it is done: never what was planned. */
export type StepReport =
  | { readonly did: string; readonly facts?: StepFacts }
  /** There was nothing to do. What needs this step goes on. */
  | { readonly skipped: string; readonly facts?: StepFacts }

/** How a step speaks while it runs. After its end nobody listens. */
export interface Tell {
  /** What has been done so far; the latest stands in the trace if the step is cut short. */
  progress(detail: string): void
  /** What the step's programs write: shown live within bounds, its end kept for the error. */
  output(chunk: Buffer): void
  /** Something that the user should know, and that does not fail the step. */
  warn(message: string): void
}

/** One step of the boot, as data. */
export interface Step<Context> {
  readonly name: string
  /** The names of the steps that must have succeeded, or had nothing to do, before this one starts. */
  readonly needs: readonly string[]
  /** Whether the boot fails with it. The failure of another is a warning. */
  readonly required: boolean
  readonly timeoutMs: number
  /** Ends soon after the signal fires, with nothing of its own running. */
  run(context: Context, signal: AbortSignal, tell: Tell): Promise<StepReport>
}
