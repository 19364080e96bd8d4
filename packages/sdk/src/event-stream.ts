import { readLines } from "./lines.ts"

/**
 * Reads a stream of server-sent events, and yields the data of each. `onLine` is called with every line, also of
 * heartbeats.
 */
export const readEventStream = async function* (
  bytes: ReadableStream<Uint8Array<ArrayBuffer>>,
  onLine: () => void,
): AsyncGenerator<string> {
  let data = ""
  for await (const line of readLines(bytes)) {
    onLine()
    if (line.startsWith("data: ")) data = line.slice("data: ".length)
    // Only the empty line completes an event: a connection may end within a line.
    if (line !== "" || data === "") continue
    yield data
    data = ""
  }
}
