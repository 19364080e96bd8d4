import type { EventBody } from "@berth/protocol/event"
import type { Journal } from "../journal/journal.ts"
import type { ProcessEvent } from "../processes/spec.ts"

/** Reports what happens to the sandbox to the readers of its events. */
export class Reports {
  readonly #journal: Promise<Pick<Journal, "append" | "isFull">>
  readonly #onFault: (error: unknown) => void

  constructor(
    journal: Promise<Pick<Journal, "append" | "isFull">>,
    onFault: (error: unknown) => void,
  ) {
    this.#journal = journal
    this.#onFault = onFault
  }

  /** Appends an event. A failure is a fault: nobody waits for it. */
  readonly tell = (body: EventBody): void => {
    this.#append(body).catch(this.#onFault)
  }

  readonly warn = (message: string): void => this.tell({ type: "warning", message })

  /** Reports restarts of a process. */
  readonly tellOf = (event: ProcessEvent): void => {
    if (event.type === "restarting") this.warn(`${event.name} is started again: ${event.reason}`)
    if (event.type === "given-up") this.warn(`${event.name} is not started again: ${event.reason}`)
  }

  /** Live output of a boot does not wait for room, as its end is in the trace. */
  async #append(body: EventBody): Promise<void> {
    const journal = await this.#journal
    if (body.type === "boot.step.output" && journal.isFull) return
    await journal.append(body)
  }
}
