import { Transform } from "node:stream"
import type { z } from "zod"
import { violated } from "./failure.ts"
import { JsonScan, tooMuch } from "./json-scan.ts"

/**
 * The bound on a line: a path and a text of thousands of bytes, each of which JSON may write as six, and as many
 * ranges.
 */
const MAX_LINE_BYTES = 256 * 1024

const NEWLINE = 0x0a

/** Parses one JSON value a line, and writes each anew. Fails at the first that does not match the schema. */
export const parsedLines = (schema: z.ZodType, maxLines: number): Transform => {
  let rest: Buffer[] = []
  let restBytes = 0
  let lines = 0
  const renew = (line: Buffer): string => {
    if (++lines > maxLines) throw tooMuch("lines", maxLines)
    new JsonScan().take(line)
    const parsed = schema.safeParse(parse(line))
    if (!parsed.success) throw violated("sent a line of another form than was asked for")
    return `${JSON.stringify(parsed.data)}\n`
  }
  const take = (chunk: Buffer): string => {
    let from = 0
    let renewed = ""
    for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, from)) {
      const line = Buffer.concat([...rest, chunk.subarray(from, at)])
      if (line.length > MAX_LINE_BYTES) throw tooMuch("line", MAX_LINE_BYTES)
      renewed += renew(line)
      rest = []
      restBytes = 0
      from = at + 1
    }
    if (from < chunk.length) rest.push(chunk.subarray(from))
    restBytes += chunk.length - from
    if (restBytes > MAX_LINE_BYTES) throw tooMuch("line", MAX_LINE_BYTES)
    return renewed
  }
  return new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      try {
        const renewed = take(chunk)
        done(null, renewed === "" ? undefined : renewed)
      } catch (thrown) {
        done(thrown as Error)
      }
    },
    flush: (done) => done(restBytes === 0 ? null : violated("ended in the middle of a line")),
  })
}

const parse = (line: Buffer): unknown => {
  try {
    return JSON.parse(line.toString("utf8"))
  } catch {
    throw violated("sent a line that is not JSON")
  }
}
