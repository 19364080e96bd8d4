import { type ChildProcess, spawn } from "node:child_process"
import { constants } from "node:fs"
import { open } from "node:fs/promises"
import type { Readable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import type { SearchLine, SearchQuery } from "@berth/protocol/files"
import { DEFAULT_SEARCH_RESULTS, MAX_LINE_BYTES } from "@berth/protocol/files-limits"
import { searchQuery } from "../../checks/forms/files.ts"
import type { HttpCall } from "../../features/feature.ts"
import { readQuery } from "../../features/read-query.ts"
import { records, TOO_LONG } from "../records.ts"
import { locate, toWire } from "./bytes.ts"
import { attempt } from "./failure.ts"
import { Sender } from "./send.ts"

/** Time limit of a search. Results found until then are returned. */
const SEARCH_DEADLINE_MS = 60_000
/** Limit of one match in ripgrep's output, in which a line can be of any length. */
const MAX_RECORD_BYTES = 1024 * 1024
const MAX_COMPLAINT_CHARS = 2_000
const NEWLINE = 0x0a
const NUL = 0

type Wanted = Omit<SearchQuery, "path" | "limit">

/** `GET /files/search` */
export const searchFiles =
  (workspace: string, ripgrep: string) =>
  async ({ response, query, signal }: HttpCall): Promise<void> => {
    const { path, limit = DEFAULT_SEARCH_RESULTS, ...wanted } = readQuery(query, searchQuery)
    if (wanted.name === undefined && wanted.content === undefined)
      throw new BerthError("input.invalid", "one of name and content is needed")
    const flags = constants.O_RDONLY | constants.O_DIRECTORY
    const folder = await attempt("search", path, () => open(locate(path, workspace), flags))
    const sender = new Sender(response)
    const tell = async (line: SearchLine) => {
      if (!response.headersSent) response.writeHead(200, { "content-type": "application/x-ndjson" })
      await sender.write(`${JSON.stringify(line)}\n`)
    }
    try {
      const until = AbortSignal.any([signal, AbortSignal.timeout(SEARCH_DEADLINE_MS)])
      await tell({
        type: "end",
        ...(await run(ripgrep, folder.fd, wanted, { limit, until, tell })),
      })
      response.end()
    } finally {
      await folder.close()
    }
  }

interface Running {
  readonly limit: number
  readonly until: AbortSignal
  readonly tell: (line: SearchLine) => Promise<void>
}

const run = async (
  ripgrep: string,
  folderFd: number,
  wanted: Wanted,
  { limit, until, tell }: Running,
): Promise<{ results: number; cut: boolean }> => {
  const child = spawn(ripgrep, argumentsFor(wanted), {
    // Opened by descriptor, since node cannot pass a name that is not text to a program.
    cwd: `/proc/self/fd/${folderFd}`,
    env: {},
    stdio: ["ignore", "pipe", "pipe"],
  })
  const ended = endOf(child)
  const stop = () => void child.kill("SIGKILL")
  until.addEventListener("abort", stop, { once: true })
  let [results, cut] = [0, false]
  try {
    for await (const line of linesOf(child.stdout, wanted)) {
      if (line === TOO_LONG) cut = true
      else if (results === limit) return { results, cut: true }
      else {
        await tell(line)
        results++
      }
    }
    const complaint = await ended
    if (complaint !== "" && !until.aborted)
      throw new BerthError("input.invalid", complaint, { details: { path: "content" } })
    return { results, cut: cut || until.aborted }
  } finally {
    stop()
    until.removeEventListener("abort", stop)
    await ended
  }
}

const argumentsFor = ({ name, content, ignoreCase, all }: Wanted): string[] => [
  // With --no-messages, unreadable files are skipped silently: only complaints about the arguments remain.
  ...["--no-config", "--no-messages"],
  ...(all ? ["-uu"] : []),
  ...(name === undefined ? [] : [`--${ignoreCase ? "iglob" : "glob"}=${name}`]),
  ...(content === undefined
    ? ["--files", "--null"]
    : ["--json", ...(ignoreCase ? ["--ignore-case"] : []), `--regexp=${content}`]),
  ...["--", "."],
]

async function* linesOf(
  output: Readable,
  { content }: Wanted,
): AsyncGenerator<SearchLine | typeof TOO_LONG> {
  const end = content === undefined ? NUL : NEWLINE
  for await (const record of records(output, { end, maxBytes: MAX_RECORD_BYTES })) {
    if (record === TOO_LONG) yield TOO_LONG
    else if (content === undefined) yield { type: "file", path: toWire(withoutDot(record)) }
    else {
      const match = matchIn(record)
      if (match !== undefined) yield match
    }
  }
}

/** A text in ripgrep's output, which is base64 if it is not UTF-8. */
type Said = { readonly text: string } | { readonly bytes: string }

const matchIn = (record: Buffer): SearchLine | undefined => {
  const { type, data } = JSON.parse(record.toString())
  if (type !== "match") return undefined
  const line = bytesOf(data.lines)
  const shown = line.subarray(0, line.at(-1) === NEWLINE ? -1 : undefined)
  return {
    type,
    path: toWire(withoutDot(bytesOf(data.path))),
    line: data.line_number,
    text: toWire(beginning(shown)),
    ranges: data.submatches
      .map(({ start, end }: { start: number; end: number }) => ({ start, end }))
      .filter(({ end }: { end: number }) => end <= MAX_LINE_BYTES),
  }
}

/** Cuts a line to the limit, without splitting a character. */
const beginning = (line: Buffer): Buffer => {
  if (line.length <= MAX_LINE_BYTES) return line
  let end = MAX_LINE_BYTES
  while (end > MAX_LINE_BYTES - 4 && ((line[end] ?? 0) & 0xc0) === 0x80) end--
  return line.subarray(0, end)
}

const bytesOf = (said: Said): Buffer =>
  "text" in said ? Buffer.from(said.text) : Buffer.from(said.bytes, "base64")

const withoutDot = (path: Buffer): Buffer => path.subarray("./".length)

/** Resolves with ripgrep's error output when it has ended. Rejects if it could not be started. */
const endOf = (child: ChildProcess): Promise<string> => {
  let complaint = ""
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    if (complaint.length < MAX_COMPLAINT_CHARS) complaint += text
  })
  const ended = new Promise<string>((resolve, reject) => {
    child.once("error", reject)
    child.once("close", () => resolve(complaint.trim().slice(0, MAX_COMPLAINT_CHARS)))
  })
  ended.catch(() => {})
  return ended
}
