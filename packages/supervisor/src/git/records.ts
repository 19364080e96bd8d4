import type { Readable } from "node:stream"

/** Splits output at NUL bytes. A last part without a NUL is a record too, unless it is empty. */
export async function* recordsOf(stdout: Readable): AsyncGenerator<Buffer> {
  let rest: Buffer[] = []
  for await (const chunk of stdout as AsyncIterable<Buffer>) {
    let from = 0
    for (let end = chunk.indexOf(0); end !== -1; end = chunk.indexOf(0, from)) {
      yield Buffer.concat([...rest, chunk.subarray(from, end)])
      rest = []
      from = end + 1
    }
    if (from < chunk.length) rest.push(chunk.subarray(from))
  }
  if (rest.length > 0) yield Buffer.concat(rest)
}
