import type { BootTrace } from "@berth/protocol/boot"
import type { ProcessSet } from "../processes/set.ts"
import type { StopOptions, StopReport } from "../processes/spec.ts"
import { type BootOptions, type BootRun, runBoot } from "./run.ts"

export interface BootWithProcesses<Context> extends BootOptions<Context> {
  /** What the steps start outlives them in here. */
  readonly processes: ProcessSet
  readonly stop?: StopOptions
  /** Done first when the processes are to be stopped. */
  readonly beforeStop?: (trace: BootTrace) => Promise<void>
}

export interface BootResult {
  readonly trace: BootTrace
  /** What it took to end the processes; undefined when they go on, because the boot succeeded. */
  readonly stopped: readonly StopReport[] | undefined
}

/**
 * Boots, and leaves no process behind when the boot ends early: only when every step has ended or is
 * abandoned are the processes that they started signalled, so that none starts anything in between. A build
 * ends the same way when it has succeeded: its files are frozen next.
 */
export const boot = <Context>(
  options: BootWithProcesses<Context>,
): BootRun & { readonly result: Promise<BootResult> } => {
  const run = runBoot(options)
  const finish = async (): Promise<BootResult> => {
    const trace = await run.ended
    const goesOn = trace.outcome === "succeeded" && options.mode !== "build"
    if (goesOn) return { trace, stopped: undefined }
    await options.beforeStop?.(trace)
    return { trace, stopped: await options.processes.stop(options.stop) }
  }
  return { ...run, result: finish() }
}
