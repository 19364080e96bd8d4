import { BerthError } from "@berth/protocol/errors"
import type { Background } from "./run.ts"
import {
  type ProcessParts,
  type ProcessSpec,
  type ProcessStatus,
  STOP_GRACE_MS,
  type StopOptions,
  type StopReport,
} from "./spec.ts"
import { SupervisedProcess } from "./supervised.ts"
import { endTree } from "./tree/end.ts"
import type { Grove } from "./tree/tree.ts"

/**
 * All processes that the supervisor is responsible for: those it keeps running, and those that hooks left in the
 * background.
 */
export class ProcessSet {
  readonly #parts: ProcessParts
  readonly #processes = new Map<string, SupervisedProcess>()
  #backgrounds: { readonly name: string; readonly grove: Grove }[] = []
  #isStopping = false

  constructor(parts: ProcessParts) {
    this.#parts = parts
  }

  /**
   * Starts a process. Names are unique, except that a process that was stopped or given up can be replaced. Throws once
   * the set is being stopped.
   */
  start(spec: ProcessSpec): SupervisedProcess {
    if (this.#isStopping)
      throw new BerthError("process.stopped", `${spec.name} was not started: all are being stopped`)
    const before = this.#processes.get(spec.name)?.status().phase
    if (before !== undefined && before !== "stopped" && before !== "given-up")
      throw new BerthError("process.start_failed", `there is a process ${spec.name} already`, {
        details: { process: spec.name },
      })
    const process = new SupervisedProcess(spec, this.#parts)
    this.#processes.set(spec.name, process)
    process.start()
    return process
  }

  get(name: string): SupervisedProcess | undefined {
    return this.#processes.get(name)
  }

  /** Takes over the processes that a command left running, to end them with the others. */
  keep(name: string, { tree }: Background): void {
    void this.#forgetEmpty()
    this.#backgrounds.push({ name, grove: tree })
  }

  /** Drops background processes that have all ended by themselves. */
  async #forgetEmpty(): Promise<void> {
    for (const background of [...this.#backgrounds])
      if ((await background.grove.find()).length === 0)
        this.#backgrounds = this.#backgrounds.filter((each) => each !== background)
  }

  status(): ProcessStatus[] {
    return [...this.#processes.values()].map((process) => process.status())
  }

  /**
   * Ends all processes at the same time. `rest`, for processes that nobody tracks any more, is ended last. A second
   * call waits for the same end.
   */
  async stop(options: StopOptions & { readonly rest?: Grove } = {}): Promise<StopReport[]> {
    this.#isStopping = true
    const reports = await Promise.all([
      ...[...this.#processes.values()].map((process) => process.stop(options)),
      ...this.#backgrounds.map(({ name, grove }) => this.#end(name, grove, options)),
    ])
    return options.rest === undefined
      ? reports
      : [...reports, await this.#end("everything else", options.rest, options)]
  }

  async #end(
    name: string,
    grove: Grove,
    { graceMs = STOP_GRACE_MS, hurry }: StopOptions,
  ): Promise<StopReport> {
    const { clock } = this.#parts
    const beganAtMs = clock.nowMs()
    const end = await endTree(grove, { clock, graceMs, hurry })
    return { name, ...end, tookMs: clock.nowMs() - beganAtMs }
  }
}
