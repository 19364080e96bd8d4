import type { SupervisedProcess } from "../processes/supervised.ts"
import type { ProcessTree } from "../processes/tree/tree.ts"

/** The process of an agent: started when it is first needed, kept running, and ended when it does not obey. */
export class KeptProcess {
  /** For messages. */
  readonly #title: string
  readonly #start: () => Promise<SupervisedProcess>
  #process: SupervisedProcess | undefined
  #launching: Promise<SupervisedProcess> | undefined
  #ended: Promise<unknown> = Promise.resolve()

  constructor(title: string, start: () => Promise<SupervisedProcess>) {
    this.#title = title
    this.#start = start
  }

  /** Starts it where it is not kept running, and waits until it is ready. */
  async ready(signal: AbortSignal): Promise<void> {
    const process = await this.#kept()
    await process.ready(signal)
  }

  /** Undefined while it runs, or starts: whoever asks for it waits for it. */
  trouble(): string | undefined {
    if (this.#launching !== undefined) return undefined
    const { phase, reason } = this.#process?.status() ?? { phase: "idle", reason: "" }
    if (phase === "idle") return `${this.#title} is not started yet`
    if (phase === "stopping" || phase === "stopped") return `${this.#title} is being stopped`
    return phase === "given-up" ? `${this.#title} is given up: ${reason}` : undefined
  }

  /** Ends it with all that came from it, at once; another starts. One that is not ready needs nothing. */
  async replace(): Promise<void> {
    const process = this.#process
    if (process === undefined || !this.isReady) return
    const stopped = process.stop({ graceMs: 0 })
    void this.#launchAfter(stopped)
    await stopped
  }

  /** Ends it with all that came from it, at once; the next prompt starts another. One that is not ready needs nothing. */
  async end(): Promise<void> {
    const process = this.#process
    if (process === undefined || !this.isReady) return
    this.#process = undefined
    this.#ended = process.stop({ graceMs: 0 })
    await this.#ended
  }

  get isReady(): boolean {
    return this.#process?.status().phase === "ready"
  }

  get grown(): ProcessTree | undefined {
    return this.#process?.grown
  }

  get pid(): number | undefined {
    return this.#process?.status().pid
  }

  lastOutput(): string {
    return this.#process?.lastOutput() ?? ""
  }

  /** One that was given up gets another chance with each new prompt. */
  #kept(): Promise<SupervisedProcess> | SupervisedProcess {
    if (this.#launching !== undefined) return this.#launching
    const process = this.#process
    if (process === undefined) return this.#launchAfter(this.#ended)
    return process.status().phase === "given-up" ? this.#launchAfter(process.stop()) : process
  }

  /** Assigned before the first await, so that those who ask at the same time share one start. */
  #launchAfter(before: Promise<unknown>): Promise<SupervisedProcess> {
    this.#launching = before
      .then(() => this.#launch())
      .finally(() => {
        this.#launching = undefined
      })
    // Whoever asks for it hears of it.
    this.#launching.catch(() => {})
    return this.#launching
  }

  async #launch(): Promise<SupervisedProcess> {
    // Where the start fails, the next prompt tries again.
    this.#process = undefined
    this.#process = await this.#start()
    return this.#process
  }
}
