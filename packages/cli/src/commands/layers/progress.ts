import { movingLine } from "../../moving-line.ts"
import { sayBytes } from "../../say-size.ts"
import type { Terminal } from "../../terminal.ts"

const SHOW_EVERY_MS = 200

/** Shows the progress of an export or an import to a person at a screen. */
export class Progress implements Disposable {
  readonly #line: ReturnType<typeof movingLine> | undefined
  readonly #timer: NodeJS.Timeout | undefined
  #stage: string
  #bytes = 0

  constructor({ err, isScreen }: Pick<Terminal, "err" | "isScreen">, stage: string) {
    this.#stage = stage
    if (!isScreen()) return
    const line = movingLine(err)
    this.#line = line
    const show = () => line.show(this.#said())
    show()
    this.#timer = setInterval(show, SHOW_EVERY_MS).unref()
  }

  get bytes(): number {
    return this.#bytes
  }

  /** Counts bytes as they pass. */
  async *counting<Bytes extends Uint8Array>(
    chunks: AsyncIterable<Bytes>,
    { during, after }: { readonly during: string; readonly after: string },
  ): AsyncGenerator<Bytes> {
    for await (const chunk of chunks) {
      this.#stage = during
      this.#bytes += chunk.length
      yield chunk
    }
    this.#stage = after
  }

  #said(): string {
    return this.#bytes === 0 ? this.#stage : `${this.#stage}: ${sayBytes(this.#bytes)}`
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer)
    this.#line?.end()
  }
}
