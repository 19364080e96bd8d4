import { BerthError } from "@berth/protocol/errors"

/** Stops a prompt whose time is over. */
export class Deadline {
  readonly #timer: NodeJS.Timeout | undefined

  /** Undefined: it has all the time that there is. */
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
