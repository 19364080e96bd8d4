import type { Writable } from "node:stream"

/** Writes, and resolves when there is room for more. Returns whether anybody still reads. */
export const writeTo = (stream: Writable, bytes: Uint8Array): Promise<boolean> =>
  new Promise((resolve) => {
    if (stream.destroyed || stream.writableEnded) return resolve(false)
    stream.write(bytes, (error) => resolve(!error))
  })

/** Ignores errors of a stream: a reader that has seen enough is no failure, and `writeTo` reports it to the writer. */
export const surviveBrokenPipe = (stream: Writable): void => {
  stream.on("error", () => {})
}
