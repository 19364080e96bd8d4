import type { Readable, Writable } from "node:stream"
import { parseModest } from "../modest-json.ts"
import { type Json, objectIn } from "../read.ts"

/** The limit of one message, which may contain a whole file. Larger ones are skipped. */
export const MAX_MESSAGE_BYTES = 32 * 1024 * 1024

const NEWLINE = 10

/**
 * Reads JSON-RPC messages, one per line. Nothing is read while the consumer is busy, so an agent is never faster than
 * its events are recorded. Lines that are no messages, such as text for a person, are skipped.
 */
export async function* messagesIn(stdout: Readable): AsyncGenerator<Json> {
  let pieces: Buffer[] = []
  let bytes = 0
  for await (const chunk of stdout) {
    let rest = chunk as Buffer
    for (let at = rest.indexOf(NEWLINE); at !== -1; at = rest.indexOf(NEWLINE)) {
      if (bytes + at <= MAX_MESSAGE_BYTES) yield* parse([...pieces, rest.subarray(0, at)])
      rest = rest.subarray(at + 1)
      pieces = []
      bytes = 0
    }
    bytes += rest.length
    if (bytes <= MAX_MESSAGE_BYTES) pieces.push(Buffer.from(rest))
    else pieces = []
  }
}

const parse = (pieces: readonly Buffer[]): Json[] => {
  try {
    const message = objectIn(parseModest(Buffer.concat(pieces).toString("utf8")))
    return message.jsonrpc === "2.0" ? [message] : []
  } catch {
    return []
  }
}

/** Writes a message. Resolves when the process can take more. */
export const writeMessage = (stdin: Writable, message: unknown): Promise<void> =>
  new Promise((resolve, reject) => {
    stdin.write(`${JSON.stringify(message)}\n`, (error) => (error ? reject(error) : resolve()))
  })
