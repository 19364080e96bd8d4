import { closeSync, constants, openSync } from "node:fs"
import type { Writable } from "node:stream"
import type { Clock } from "../processes/clock.ts"
import type { Input } from "../processes/wiring.ts"

/** Delay before the pipe is first opened for waiting readers, and the longest interval after that. */
const FIRST_POKE_MS = 5
const LONGEST_POKE_MS = 500

/** A command's standard input. Data that is written after its end, or without a reader, is dropped. */
export class Stdin {
  readonly #stream: Writable
  readonly #pipeFd: number | undefined
  readonly #clock: Clock
  #isEnded = false
  /** Keeps the pipe open after the end of the input. */
  #heldFd: number | undefined
  #takeBack = () => {}

  constructor({ stream, pipeFd }: Input, clock: Clock) {
    this.#stream = stream
    this.#pipeFd = pipeFd
    this.#clock = clock
    // A command may end without reading all of its input.
    stream.on("error", () => this.close())
  }

  /** Writes a chunk. Returns undefined if there is room for more, else a promise that resolves when there is. */
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

  /**
   * Ends the input after what was written. A pipe has no shutdown, unlike a socket: it ends when nobody has it open for
   * writing.
   */
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

  /** Called when the command has ended. */
  close(): void {
    this.#isEnded = true
    this.#stream.destroy()
    this.#takeBack()
    if (this.#heldFd !== undefined) closeSync(this.#heldFd)
    this.#heldFd = undefined
  }

  /**
   * Opens the pipe for writing for a moment, repeatedly. A process that opens a named pipe waits until another opens it
   * for writing, even if one did before: a script's `cat /dev/stdin` would wait forever. This lets it go on, to the
   * pipe's content and its end.
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
