import { MAX_COMMANDS, MAX_ENDED_COMMANDS } from "@berth/protocol/command-limits"
import { CommandInfo, CommandList } from "@berth/protocol/commands"
import { Extracted, FileEntry, FileList, SearchLine, WrittenFiles } from "@berth/protocol/files"
import {
  MAX_LINE_BYTES,
  MAX_LIST_ENTRIES,
  MAX_SEARCH_RESULTS,
  MAX_WRITE_FILES,
} from "@berth/protocol/files-limits"
import { GitChange, GitChanges, GitCommit, GitFile, GitLog, GitStatus } from "@berth/protocol/git"
import { MAX_GIT_COMMITS, MAX_GIT_FILES } from "@berth/protocol/git-limits"
import { listOf } from "@berth/protocol/list"
import { MAX_LISTED_PORTS } from "@berth/protocol/port-limits"
import { Port, PortList } from "@berth/protocol/ports"
import { MAX_ENDED_TERMINALS, MAX_TERMINALS } from "@berth/protocol/terminal-limits"
import { TerminalInfo, TerminalList } from "@berth/protocol/terminals"
import { z } from "zod"
import { problemOfListing } from "./listing.ts"

/** The form of a successful answer of a sandbox. */
export type Answer =
  | JsonAnswer
  /** Status 204. */
  | { readonly kind: "nothing" }
  | BytesAnswer
  /** One JSON value a line. */
  | { readonly kind: "lines"; readonly schema: z.ZodType; readonly maxLines: number }

export interface JsonAnswer {
  readonly kind: "json"
  readonly status: number
  readonly schema: z.ZodType
}

export interface BytesAnswer {
  readonly kind: "bytes"
  /** The content type that clients get, whatever the sandbox says. */
  readonly type: string
  /** Whether a client can ask for a part. */
  readonly inParts?: boolean
  /** Whether 204 is a valid answer as well. */
  readonly mayBeNothing?: boolean
}

const json = (schema: z.ZodType, status = 200): JsonAnswer => ({ kind: "json", status, schema })
const bytes = (type: string, more: Partial<BytesAnswer> = {}): BytesAnswer => ({
  kind: "bytes",
  type,
  ...more,
})
const NOTHING: Answer = { kind: "nothing" }

/** The most arguments of one command: as many as fit into the request that started it. */
const MAX_WORDS = 100_000

const words = listOf(z.string(), { max: MAX_WORDS })
/** A command, with bounded lists. */
export const command = CommandInfo.extend({ command: words })
const commands = CommandList.extend({
  commands: listOf(command, { max: MAX_COMMANDS + MAX_ENDED_COMMANDS }),
})
const terminal = TerminalInfo.extend({ command: words })
const terminals = TerminalList.extend({
  terminals: listOf(terminal, { max: MAX_TERMINALS + MAX_ENDED_TERMINALS }),
})
const listing = FileList.extend({
  entries: listOf(FileEntry, { max: MAX_LIST_ENTRIES }),
}).superRefine((list, context) => {
  const problem = problemOfListing(list)
  if (problem !== undefined) context.addIssue({ code: "custom", message: problem })
})
const written = WrittenFiles.extend({
  files: listOf(WrittenFiles.shape.files.element, { max: MAX_WRITE_FILES }),
})
/** A line may match at every byte, and twice where an empty match counts as well. */
const MAX_RANGES = 2 * MAX_LINE_BYTES
const [file, match, end] = SearchLine.options
const range = match.shape.ranges.element
const searchLine = z.discriminatedUnion("type", [
  file,
  match.extend({ ranges: listOf(range, { max: MAX_RANGES }) }),
  end,
])
const commit = GitCommit.extend({ parents: listOf(z.string(), { max: MAX_WORDS }) })

/** The answers by method and path; an id in the path is written `:id`. */
const ANSWERS: Readonly<Record<string, Answer>> = {
  "POST /commands": json(command, 201),
  "GET /commands": json(commands),
  "GET /commands/:id": json(command),
  "POST /commands/:id/signal": NOTHING,
  "DELETE /commands/:id": json(command),
  "GET /files/content": bytes("application/octet-stream", { inParts: true }),
  "PUT /files/content": json(FileEntry),
  "POST /files/write": json(written),
  "GET /files/list": json(listing),
  "GET /files/stat": json(FileEntry),
  "POST /files/mkdir": json(FileEntry, 201),
  "POST /files/move": json(FileEntry),
  "DELETE /files": NOTHING,
  "GET /files/search": { kind: "lines", schema: searchLine, maxLines: MAX_SEARCH_RESULTS + 1 },
  "GET /files/archive": bytes("application/x-tar"),
  "PUT /files/archive": json(Extracted),
  "POST /terminals": json(terminal, 201),
  "GET /terminals": json(terminals),
  "GET /terminals/:id": json(terminal),
  "DELETE /terminals/:id": json(terminal),
  "GET /ports": json(PortList.extend({ ports: listOf(Port, { max: MAX_LISTED_PORTS }) })),
  "GET /git/status": json(GitStatus.extend({ files: listOf(GitFile, { max: MAX_GIT_FILES }) })),
  "GET /git/changes": json(GitChanges.extend({ files: listOf(GitChange, { max: MAX_GIT_FILES }) })),
  "GET /git/diff": bytes("text/x-diff"),
  "GET /git/log": json(GitLog.extend({ commits: listOf(commit, { max: MAX_GIT_COMMITS }) })),
  "POST /git/commit": json(commit, 201),
  "GET /git/bundle": bytes("application/x-git-bundle", { mayBeNothing: true }),
}

/** The answer of a call, by its path without the query; undefined: no sandbox serves it. */
export const answerTo = (method: string | undefined, path: string): Answer | undefined => {
  const exact = `${method} ${path}`
  if (Object.hasOwn(ANSWERS, exact)) return ANSWERS[exact]
  const form = exact.replace(/^(\S+ \/(?:commands|terminals))\/[^/]+/, "$1/:id")
  return Object.hasOwn(ANSWERS, form) ? ANSWERS[form] : undefined
}
