import { BerthError } from "@berth/protocol/errors"
import { ForkLine, type ForkProgress } from "@berth/protocol/sandboxes"
import { type CallOptions, type Connection, parseJson, stream } from "./call.ts"
import { readLines } from "./lines.ts"
import { errorOf, notBerth } from "./reply-error.ts"
import { limitSilence } from "./silence.ts"

export interface ForkOptions extends CallOptions {
  /** Called with the progress. */
  readonly onProgress?: (progress: ForkProgress) => void
  /** The longest silence of the server. Default: a minute; it sends something every ten seconds. */
  readonly deadlineMs?: number | undefined
}

const SILENCE_MS = 60_000

/** Forks, and reads the progress until the fork has ended. */
export const fork = async (
  connection: Connection,
  path: string,
  to: string,
  { onProgress, signal, deadlineMs = SILENCE_MS }: ForkOptions = {},
): Promise<Extract<ForkLine, { type: "forked" }>> => {
  const silence = limitSilence(deadlineMs, signal)
  try {
    const ask = { method: "POST", path, json: { to } } as const
    const lines = readLines(await stream(connection, ask, { signal: silence.signal, deadlineMs }))
    for await (const text of lines) {
      silence.heard()
      const { data: line } = ForkLine.safeParse(parseJson(text))
      if (line === undefined) throw notBerth(connection.url, 200)
      if (line.type === "forked") return line
      if (line.type === "failed") throw errorOf(line)
      onProgress?.({ stage: line.stage, files: line.files, of: line.of })
    }
  } catch (thrown) {
    if (thrown instanceof BerthError && thrown.code !== "cancelled") throw thrown
    if (signal?.aborted)
      throw new BerthError("cancelled", "the fork was cancelled", { cause: thrown })
    if (silence.isExceeded()) {
      const message = `the server at ${connection.url} said nothing for ${deadlineMs} ms`
      throw new BerthError("deadline.exceeded", message, { details: { deadlineMs }, cause: thrown })
    }
    throw cutOff(connection, thrown)
  } finally {
    silence.end()
  }
  throw cutOff(connection, undefined)
}

const cutOff = ({ url }: Connection, cause: unknown): BerthError =>
  new BerthError("server.unreachable", `the server at ${url} ended before the fork did`, {
    details: { url },
    cause,
  })
