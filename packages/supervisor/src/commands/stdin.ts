import { closeSync, constants, openSync } from "node:fs"
import type { Writable } from "node:stream"
import type { Clock } from "../processes/clock.ts"
import type { Input } from "../processes/wiring.ts"

/** Until the first look for someone who waits at the pipe, and between two of them at the most. */
const FIRST_POKE_MS = 5
const LONGEST_POKE_MS = 500

/** A command's standard input. What is written after its end, or when nobody reads any more, is dropped. */
export class Stdin {
  readonly #stream: Writable
  readonly #pipeFd: number | undefined
  readonly #clock: Clock
  #isEnded = false
  /** Holds the pipe after its end. */
  #heldFd: number | undefined
  #takeBack = () => {}

  constructor({ stream, pipeFd }: Input, clock: Clock) {
    this.#stream = stream
    this.#pipeFd = pipeFd
    this.#clock = clock
    // A command that ends without reading it all is no failure.
    stream.on("error", () => this.close())
  }

  /** Resolves when there is room for more; undefined: there is. */
  write(chunk: Buffer): Promise<void> | undefined {
    if (this.#isEnded || this.#stream.destroyed) return undefined
    if (this.#stream.write(chunk)) return undefined
    return new Promise((resolve) => {
      const end = () => {
        this.#stream.off("drain", end)
        this.#stream.off("close", end)
        resolve()
      }
      this.#stream.on("drain", end)
      this.#stream.on("close", end)
    })
  }

  /** After what was written. A pipe is not shut down as a socket is: its end is that nobody has it open. */
  end(): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#stream.write("", (error) => {
      if (error || this.#stream.destroyed) return
      if (this.#pipeFd !== undefined) this.#heldFd = reopen(this.#pipeFd, constants.O_RDONLY)
      this.#stream.destroy()
      this.#poke(FIRST_POKE_MS)
    })
  }

  /** When the command has ended. */
  close(): void {
    this.#isEnded = true
    this.#stream.destroy()
    this.#takeBack()
    if (this.#heldFd !== undefined) closeSync(this.#heldFd)
    this.#heldFd = undefined
  }

  /**
   * Whoever opens a named pipe waits until someone opens it for writing, even if that was before: a script's
   * `cat /dev/stdin` would wait for ever. Opening it for a moment lets them go on, to what is in it and its end.
   */
  #poke(afterMs: number): void {
    this.#takeBack = this.#clock.after(afterMs, () => {
      if (this.#heldFd === undefined) return
      const fd = reopen(this.#heldFd, constants.O_WRONLY)
      if (fd !== undefined) closeSync(fd)
      this.#poke(Math.min(2 * afterMs, LONGEST_POKE_MS))
    })
  }
}

const reopen = (fd: number, mode: number): number | undefined => {
  try {
    return openSync(`/proc/self/fd/${fd}`, mode | constants.O_NONBLOCK)
  } catch {
    return undefined
  }
}
