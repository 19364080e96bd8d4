import { BerthError } from "@berth/protocol/errors"

/** Stops a prompt when its time is over. */
export class Deadline {
  readonly #timer: NodeJS.Timeout | undefined

  /** `ms` is undefined for a prompt without a deadline. */
  constructor(ms: number | undefined, stop: AbortController) {
    if (ms !== undefined) this.#timer = setTimeout(() => stop.abort(overdue(ms)), ms)
  }

  clear(): void {
    clearTimeout(this.#timer)
  }
}

export const isOverdue = (reason: unknown): reason is BerthError =>
  reason instanceof BerthError && reason.code === "prompt.overdue"

const overdue = (ms: number): BerthError =>
  new BerthError("prompt.overdue", `the prompt did not end within ${ms} ms`)
