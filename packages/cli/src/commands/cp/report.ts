import type { LeftOut } from "@berth/protocol/files"
import { saySize } from "../../say-size.ts"
import { printable, type Terminal } from "../../terminal.ts"
import { bytesOf } from "./bytes.ts"

/** A copy that takes less time shows nothing. */
const QUIET_MS = 1_000
const SHOW_EVERY_MS = 200

/** The most names of a kind that are reported; a sandbox can have any number. */
const MAX_TOLD = 20

/** Moves to the start of the line and clears it. */
const NEW_LINE = "\r\u001b[K"

const KINDS: Readonly<Record<LeftOut["why"], string>> = {
  pipe: "a named pipe",
  socket: "a socket",
  device: "a device",
  unreadable: "closed to the sandbox's user",
}

/** Shows a person the progress of a copy, and the entries that it leaves out. */
export class CopyReport implements Disposable {
  readonly #terminal: Pick<Terminal, "err" | "isScreen">
  readonly #shown: NodeJS.Timeout | undefined
  readonly #startedMs = performance.now()
  #files = 0
  #bytes = 0
  #told = 0
  #unreadable = 0
  #isShown = false

  constructor(terminal: Pick<Terminal, "err" | "isScreen">) {
    this.#terminal = terminal
    if (terminal.isScreen()) this.#shown = setInterval(() => this.#show(), SHOW_EVERY_MS).unref()
  }

  /** Entries that could not be read, and are not in the copy. */
  get unreadable(): number {
    return this.#unreadable
  }

  copied(): void {
    this.#files += 1
  }

  passed(bytes: number): void {
    this.#bytes += bytes
  }

  /** Counts the bytes of a file as they pass. */
  async *counting(content: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    for await (const chunk of content) {
      this.passed(chunk.length)
      yield chunk
    }
  }

  leftOut({ path, why }: LeftOut): void {
    if (why === "unreadable") this.#unreadable += 1
    this.#told += 1
    if (this.#told > MAX_TOLD) return
    const name = bytesOf(path)
      .toString()
      .replaceAll(/[\n\t]/g, "\u{FFFD}")
    this.#line(`skipped ${name}: it is ${KINDS[why]}`)
  }

  [Symbol.dispose](): void {
    clearInterval(this.#shown)
    this.#clear()
    const more = this.#told - MAX_TOLD
    if (more > 0) this.#line(`skipped ${more.toLocaleString("en")} more`)
  }

  #line(text: string): void {
    this.#clear()
    this.#terminal.err(`${printable(text)}\n`)
  }

  #show(): void {
    if (performance.now() - this.#startedMs < QUIET_MS) return
    this.#isShown = true
    this.#terminal.err(`${NEW_LINE}copied ${saySize({ bytes: this.#bytes, files: this.#files })}`)
  }

  #clear(): void {
    if (this.#isShown) this.#terminal.err(NEW_LINE)
    this.#isShown = false
  }
}
