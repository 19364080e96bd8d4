import type { SupervisedProcess } from "../processes/supervised.ts"
import type { ProcessTree } from "../processes/tree/tree.ts"

/** An agent's process: started when it is first needed, kept running, and replaced when it does not obey. */
export class ManagedProcess {
  /** The agent's name in messages. */
  readonly #title: string
  readonly #start: () => Promise<SupervisedProcess>
  #process: SupervisedProcess | undefined
  #launching: Promise<SupervisedProcess> | undefined
  #ended: Promise<unknown> = Promise.resolve()

  constructor(title: string, start: () => Promise<SupervisedProcess>) {
    this.#title = title
    this.#start = start
  }

  /** Starts the process if it does not run, and waits until it is ready. */
  async ready(signal: AbortSignal): Promise<void> {
    const process = await this.#current()
    await process.ready(signal)
  }

  /** Why the process cannot be used; undefined while it runs or starts, since callers wait for a start. */
  trouble(): string | undefined {
    if (this.#launching !== undefined) return undefined
    const { phase, reason } = this.#process?.status() ?? { phase: "idle", reason: "" }
    if (phase === "idle") return `${this.#title} is not started yet`
    if (phase === "stopping" || phase === "stopped") return `${this.#title} is being stopped`
    return phase === "given-up" ? `${this.#title} is given up: ${reason}` : undefined
  }

  /**
   * Ends the process and everything that came from it, at once, and starts another. Does nothing if it is not ready.
   */
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

  /** Returns the process, starting it if needed. After it was given up, each new prompt tries again. */
  #current(): Promise<SupervisedProcess> | SupervisedProcess {
    if (this.#launching !== undefined) return this.#launching
    const process = this.#process
    if (process === undefined) return this.#launchAfter(this.#ended)
    return process.status().phase === "given-up" ? this.#launchAfter(process.stop()) : process
  }

  /**
   * Starts the process. `#launching` is assigned before the first await, so that concurrent callers share one start.
   */
  #launchAfter(before: Promise<unknown>): Promise<SupervisedProcess> {
    this.#launching = before
      .then(() => this.#launch())
      .finally(() => {
        this.#launching = undefined
      })
    // A failure reaches the callers that await it.
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
