import type { EventBody } from "@berth/protocol/event"

/** A step that takes longer is reported while it runs; most are over before a person would wonder. */
const TOLD_AFTER_MS = 1_000

/** Reports the current step of a boot, where that takes a while. */
export class BootWaits {
  readonly #line: (text: string) => void
  readonly #running = new Map<string, NodeJS.Timeout>()

  constructor(line: (text: string) => void) {
    this.#line = line
  }

  take(body: EventBody): void {
    if (body.type === "boot.step.started") {
      const { step } = body
      const tell = () => this.#line(`waiting: the boot is at ${step}`)
      clearTimeout(this.#running.get(step))
      this.#running.set(step, setTimeout(tell, TOLD_AFTER_MS))
    }
    if (body.type === "boot.step.ended") clearTimeout(this.#running.get(body.step))
    if (body.type === "boot.ready" || body.type === "boot.ending") this.end()
  }

  /** Stops reporting: nobody waits for the boot any more. May be called twice. */
  end(): void {
    for (const timer of this.#running.values()) clearTimeout(timer)
    this.#running.clear()
  }
}
