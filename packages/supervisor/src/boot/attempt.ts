import { BerthError } from "@berth/protocol/errors"
import type { Clock } from "../processes/clock.ts"
import type { Step, StepReport, Tell } from "./step.ts"

/** The result of running a step once. */
export type Result =
  | { readonly kind: "reported"; readonly report: StepReport }
  | { readonly kind: "threw"; readonly thrown: unknown }
  /** The step went on after its cancellation and the grace. */
  | { readonly kind: "abandoned" }

export interface Attempt {
  readonly ended: Promise<Result>
  /** Fires the step's signal. The grace counts from the first call. */
  cancel(reason: BerthError): void
  /** The reason if the signal fired before the step had ended; else undefined. */
  readonly cancelledFor: BerthError | undefined
}

export interface AttemptOptions<Context> {
  readonly step: Step<Context>
  readonly context: Context
  readonly tell: Tell
  readonly clock: Clock
  readonly cancelGraceMs: number
  /** Called at the moment when the time limit is missed. The step may still be winding down. */
  onTimeout(missed: BerthError): void
}

/** Runs a step within its time limit. `ended` always resolves: with the step's end, or when the step is abandoned. */
export const attempt = <Context>(options: AttemptOptions<Context>): Attempt => {
  const { step, context, tell, clock, cancelGraceMs } = options
  const controller = new AbortController()
  const { promise: ended, resolve } = Promise.withResolvers<Result>()
  let cancelledFor: BerthError | undefined
  let isOver = false
  let stopTimer = () => {}

  const end = (result: Result) => {
    if (isOver) return
    isOver = true
    stopTimer()
    resolve(result)
  }
  const cancel = (reason: BerthError) => {
    if (isOver || cancelledFor !== undefined) return
    cancelledFor = reason
    stopTimer()
    stopTimer = clock.after(cancelGraceMs, () => end({ kind: "abandoned" }))
    controller.abort(reason)
  }
  stopTimer = clock.after(step.timeoutMs, () => {
    const missed = new BerthError(
      "deadline.exceeded",
      `step ${step.name} did not end within ${step.timeoutMs} ms`,
      { details: { step: step.name, timeoutMs: step.timeoutMs } },
    )
    cancel(missed)
    options.onTimeout(missed)
  })
  call(() => step.run(context, controller.signal, tell)).then(
    (report) => end({ kind: "reported", report }),
    (thrown: unknown) => end({ kind: "threw", thrown }),
  )
  return {
    ended,
    cancel,
    get cancelledFor() {
      return cancelledFor
    },
  }
}

/** Makes a step that throws before its first await fail like any other. */
const call = async <T>(run: () => Promise<T>): Promise<T> => run()
