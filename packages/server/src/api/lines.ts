import type { ServerResponse } from "node:http"
import type { BerthError } from "@berth/protocol/errors"

/** The pause between two lines: a person sees progress, and no reader gets more than a person can read. */
const TELL_EVERY_MS = 250

/** The longest silence: programs in between, and clients, end silent connections. */
const SILENCE_MS = 10_000

/** An answer of one JSON value a line, for operations that take their time. */
export interface Lines<Line> {
  /** Reports progress. If that comes too often, or while nobody reads, only the latest is sent. */
  tell(line: Line): void
  /** Sends the last line. */
  end(line: Line): void
  /** Ends the lines with a failure; before the first line, it is an error response. */
  fail(error: BerthError, line: Line): void
}

/** Begins with the first progress, or with `silent` if there is none for a while. */
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
