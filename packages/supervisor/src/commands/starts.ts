import { setTimeout as delay, setImmediate as turn } from "node:timers/promises"
import { MAX_COMMANDS } from "@berth/protocol/command-limits"
import { BerthError } from "@berth/protocol/errors"
import { type Launch, type LaunchedApart, launchApart } from "../processes/launch.ts"
import type { Pipes } from "../processes/output/pipes.ts"

/** Error codes of the kernel when there are too many processes or open files. */
const FULL = ["EAGAIN", "EMFILE", "ENFILE", "ENOMEM"]
/** Time that a start waits for others to end, and the interval of its tries. */
export const ROOM_WITHIN_MS = 10_000
const LOOK_FOR_ROOM_MS = 50

/**
 * Starts commands one after another. A start blocks the event loop until the kernel has made the process; between two
 * starts, other work is done.
 */
export class Starts {
  readonly #pipes: Pipes
  readonly #onCount: (running: number) => void
  #last: Promise<unknown> = Promise.resolve()
  #count = 0

  /** `onCount` is called with the number of commands whenever it changes. */
  constructor(pipes: Pipes, onCount: (running: number) => void) {
    this.#pipes = pipes
    this.#onCount = onCount
  }

  /** Takes one of the MAX_COMMANDS places. The returned function releases it. */
  take(): () => void {
    if (this.#count >= MAX_COMMANDS)
      throw new BerthError("commands.too_many", "too many commands run at the same time", {
        details: { limit: MAX_COMMANDS },
      })
    this.#onCount(++this.#count)
    let isTaken = true
    return () => {
      if (isTaken) this.#onCount(--this.#count)
      isTaken = false
    }
  }

  start(what: Launch, stdin: boolean, signal: AbortSignal): Promise<LaunchedApart> {
    const started = this.#last.then(() => this.#start(what, stdin, signal))
    this.#last = started.then(
      () => turn(),
      () => turn(),
    )
    return started
  }

  /** Resolves when no start that was requested before now waits any more. */
  async idle(): Promise<void> {
    await this.#last
  }

  async #start(what: Launch, stdin: boolean, signal: AbortSignal): Promise<LaunchedApart> {
    const giveUpAtMs = performance.now() + ROOM_WITHIN_MS
    for (;;) {
      try {
        return await launchApart(what, { pipes: this.#pipes, stdin, signal })
      } catch (thrown) {
        if (!isFull(thrown) || performance.now() >= giveUpAtMs) throw thrown
        await delay(LOOK_FOR_ROOM_MS, undefined, { signal })
      }
    }
  }
}

const isFull = (thrown: unknown): boolean =>
  thrown instanceof BerthError && FULL.includes(String(thrown.details.code))
