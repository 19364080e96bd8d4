import type { ServerResponse } from "node:http"
import type { BerthError } from "@berth/protocol/errors"

/** A person sees that it goes on, and no reader has more to read than a person can. */
const TELL_EVERY_MS = 250

/** Programs in between, and clients, end what is silent. */
const SILENCE_MS = 10_000

/** An answer of one JSON value a line, for what takes its time. */
export interface Lines<Line> {
  /** Says how far it is. Only the latest is sent of what is told too often, or while nobody reads. */
  tell(line: Line): void
  /** The last line. */
  end(line: Line): void
  /** Ends the lines with a failure: one that comes before the first line is an error's answer. */
  fail(error: BerthError, line: Line): void
}

/** Begins with what is told first, or with `silent` if nothing is told for a while. */
export const openLines = <Line>(response: ServerResponse, silent: Line): Lines<Line> => {
  let latest = silent
  let isNew = false
  let sentMs = performance.now()
  const write = (line: Line): void => {
    if (!response.headersSent) response.writeHead(200, HEADERS)
    response.write(`${JSON.stringify(line)}\n`)
    isNew = false
    sentMs = performance.now()
  }
  const timer = setInterval(() => {
    if (response.writableNeedDrain || response.destroyed) return
    if (isNew || performance.now() - sentMs > SILENCE_MS) write(latest)
  }, TELL_EVERY_MS)
  response.once("close", () => clearInterval(timer))
  const end = (line: Line): void => {
    clearInterval(timer)
    if (response.destroyed) return
    write(line)
    response.end()
  }
  return {
    tell: (line) => {
      latest = line
      isNew = true
    },
    end,
    fail: (error, line) => {
      if (response.headersSent) return end(line)
      clearInterval(timer)
      response.writeHead(error.status, { "content-type": "application/json; charset=utf-8" })
      response.end(JSON.stringify(error.toJSON()))
    },
  }
}

const HEADERS = { "content-type": "application/x-ndjson", "cache-control": "no-store" }
