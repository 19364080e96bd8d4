import { setTimeout as delay, setImmediate as turn } from "node:timers/promises"
import { MAX_COMMANDS } from "@berth/protocol/command-limits"
import { BerthError } from "@berth/protocol/errors"
import { type Launch, type LaunchedApart, launchApart } from "../processes/launch.ts"
import type { Pipes } from "../processes/output/pipes.ts"

/** What the kernel says where there are as many processes or open files as there may be. */
const FULL = ["EAGAIN", "EMFILE", "ENFILE", "ENOMEM"]
/** How long a start waits for others to end, and how often it looks. */
export const ROOM_WITHIN_MS = 10_000
const LOOK_FOR_ROOM_MS = 50

/**
 * Starts commands one after another: a start keeps the event loop busy until the kernel has made the process,
 * and between two of them all the others are served.
 */
export class Starts {
  readonly #pipes: Pipes
  readonly #onCount: (running: number) => void
  #last: Promise<unknown> = Promise.resolve()
  #count = 0

  /** `onCount` is told how many there are, whenever that changes. */
  constructor(pipes: Pipes, onCount: (running: number) => void) {
    this.#pipes = pipes
    this.#onCount = onCount
  }

  /** Counts as one of MAX_COMMANDS until it is released. */
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

  /** Resolves when none that was asked for before now waits any more. */
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
