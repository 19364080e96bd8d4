import type { BootTrace } from "@berth/protocol/boot"
import type { ProcessSet } from "../processes/set.ts"
import type { StopOptions, StopReport } from "../processes/spec.ts"
import { type BootOptions, type BootRun, runBoot } from "./run.ts"

export interface BootWithProcesses<Context> extends BootOptions<Context> {
  /** Holds the processes that outlive the steps that started them. */
  readonly processes: ProcessSet
  readonly stop?: StopOptions
  /** Called before the processes are stopped. */
  readonly beforeStop?: (trace: BootTrace) => Promise<void>
}

export interface BootResult {
  readonly trace: BootTrace
  /** The reports of stopping the processes; undefined when they go on, because the boot succeeded. */
  readonly stopped: readonly StopReport[] | undefined
}

/**
 * Runs a boot, and leaves no process behind if it ends early. The processes are signalled only when every step has
 * ended or is abandoned, so that no step starts another in between. A build that succeeded ends the same way, as its
 * files are frozen next.
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
