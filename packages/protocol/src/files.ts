/**
 * Files in a sandbox, below `/v1/sandboxes/{id}` at the server and at the supervisor's root. All is done with
 * the rights of the sandbox's user: links and `..` lead where they lead for that user, and nowhere else.
 *
 * | call | takes | answers |
 * | --- | --- | --- |
 * | `GET /files/content` | ContentQuery, `Range` | the bytes; `ETag` of size and time; 206, 416 |
 * | `PUT /files/content` | WriteQuery, the bytes | FileEntry, when all of it is in place |
 * | `POST /files/write` | WriteFiles | WrittenFiles: each file is whole or untouched |
 * | `GET /files/list` | ListQuery | FileList |
 * | `GET /files/stat` | StatQuery | FileEntry |
 * | `POST /files/mkdir` | MakeDirectory | FileEntry |
 * | `POST /files/move` | MoveFile | FileEntry |
 * | `DELETE /files` | RemoveQuery | 204 |
 * | `GET /files/search` | SearchQuery | SearchLine, one a line (NDJSON); the last one is `end` |
 * | `GET /files/archive` | ArchiveQuery | a tar archive of what is in the folder; see LeftOut |
 * | `PUT /files/archive` | ArchiveQuery, a tar archive | Extracted |
 * | WebSocket `/files/watch` | WatchQuery | WatchMessage in text frames; the first one is `ready` |
 *
 * **Bytes.** Names and contents are bytes. Where they are UTF-8 they travel as text, and else as
 * `{ "base64": "…" }`. In a query, `path=` is text, `path64=` bytes as base64, and `mode=` octal; `fileQuery`
 * writes queries. A relative path is below the workspace.
 *
 * **Writing.** A file is written under another name in the same directory and then renamed, so that a reader sees
 * the old one or the new one, and a write that fails leaves the old one. A link's target is replaced, not the link.
 * A new file has mode 644 unless `mode` says otherwise; a replaced one keeps its mode. It is not synced: after a
 * power loss either may be there.
 */
import { z } from "zod"
import {
  MAX_IGNORED_NAMES,
  MAX_LIST_DEPTH,
  MAX_LIST_ENTRIES,
  MAX_PATTERN_CHARS,
  MAX_SEARCH_RESULTS,
  MAX_WRITE_FILES,
} from "./files-limits.ts"
import { decodesWithoutNul, hasNoNul, isWellFormed } from "./rules.ts"

const Base64 = z
  .string()
  .regex(/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/, "must be base64")

const NUL = "must not contain a NUL byte"

const Text = z.string().refine(isWellFormed, "must be text that UTF-8 can hold")

/** Bytes, as text where they are UTF-8. */
export const Bytes = z.union([Text, z.strictObject({ base64: Base64 })])
export type Bytes = z.infer<typeof Bytes>

/** A path or a name. It holds no NUL, and is not empty. */
export const FilePath = z.union([
  Text.min(1).refine(hasNoNul, NUL),
  z.strictObject({
    base64: Base64.min(1).refine(decodesWithoutNul, NUL),
  }),
])
export type FilePath = z.infer<typeof FilePath>

/** Permission bits: 0o644 is 420. */
export const FileMode = z.int().min(0).max(0o7777)

export const FileKind = z.enum(["file", "directory", "link", "other"])
export type FileKind = z.infer<typeof FileKind>

export const FileEntry = z.strictObject({
  /** The path: in a listing relative to the listed folder, else as in the request. */
  path: FilePath,
  kind: FileKind,
  size: z.int().nonnegative(),
  mode: FileMode,
  uid: z.int().nonnegative(),
  gid: z.int().nonnegative(),
  modifiedAtMs: z.number(),
  /** The etag changes with the content; it is the same as the header of `GET /files/content`. */
  etag: z.string(),
  /** The target of a link. */
  target: Bytes.optional(),
})
export type FileEntry = z.infer<typeof FileEntry>

export const ContentQuery = z.strictObject({ path: FilePath })

export const WriteQuery = z.strictObject({
  path: FilePath,
  mode: FileMode.optional(),
  /** Makes the missing directories above. */
  parents: z.boolean().optional(),
})

export const WriteFiles = z.strictObject({
  files: z
    .array(z.strictObject({ path: FilePath, content: Bytes, mode: FileMode.optional() }))
    .min(1)
    .max(MAX_WRITE_FILES),
  parents: z.boolean().optional(),
})
export type WriteFiles = z.infer<typeof WriteFiles>

/** An error as it travels: see `WireError`. */
const SaidError = z.looseObject({ code: z.string(), message: z.string() })

/** The outcomes in the order of the request; `error` is absent where the file is in place. */
export const WrittenFiles = z.strictObject({
  files: z.array(z.strictObject({ path: FilePath, error: SaidError.optional() })),
})
export type WrittenFiles = z.infer<typeof WrittenFiles>

export const ListQuery = z.strictObject({
  path: FilePath,
  /** 1: the entries of the folder itself, which is the default. Links are not followed. */
  depth: z.int().min(1).max(MAX_LIST_DEPTH).optional(),
  limit: z.int().min(1).max(MAX_LIST_ENTRIES).optional(),
})

/** The entries by path. Where there are more than the limit, higher ones come first, and `cut` is true. */
export const FileList = z.strictObject({ entries: z.array(FileEntry), cut: z.boolean() })
export type FileList = z.infer<typeof FileList>

/** With `follow`, describes the target of a link. */
export const StatQuery = z.strictObject({ path: FilePath, follow: z.boolean().optional() })

export const MakeDirectory = z.strictObject({
  path: FilePath,
  mode: FileMode.optional(),
  /** Makes the missing directories above, too, and accepts an existing one. */
  parents: z.boolean().optional(),
})
export type MakeDirectory = z.infer<typeof MakeDirectory>

/** Moves within one file system: another one answers `files.failed` with the code EXDEV in its details. */
export const MoveFile = z.strictObject({
  from: FilePath,
  to: FilePath,
  /** Whether a file may replace another; a directory never does. */
  replace: z.boolean().optional(),
})
export type MoveFile = z.infer<typeof MoveFile>

export const RemoveQuery = z.strictObject({
  path: FilePath,
  /** Also removes a directory with its contents. */
  recursive: z.boolean().optional(),
})

/** An argument of ripgrep: the kernel ends one at its first NUL. */
const SearchPattern = z.string().min(1).max(MAX_PATTERN_CHARS).refine(hasNoNul, NUL)

/** Searches by name, by content, or by content in the files of that name. */
export const SearchQuery = z.strictObject({
  path: FilePath,
  /** A glob in the manner of .gitignore, of paths below the folder. */
  name: SearchPattern.optional(),
  /** A regular expression of ripgrep. */
  content: SearchPattern.optional(),
  ignoreCase: z.boolean().optional(),
  /** Also searches hidden files, and those that .gitignore leaves out. */
  all: z.boolean().optional(),
  limit: z.int().min(1).max(MAX_SEARCH_RESULTS).optional(),
})
export type SearchQuery = z.infer<typeof SearchQuery>

const line = <Type extends string, Shape extends z.ZodRawShape>(type: Type, shape: Shape) =>
  z.strictObject({ type: z.literal(type), ...shape })

export const SearchLine = z.discriminatedUnion("type", [
  line("file", { path: FilePath }),
  line("match", {
    path: FilePath,
    /** The number of the line, from 1. */
    line: z.int().positive(),
    /** The line, or the beginning of a long one. */
    text: Bytes,
    /** The places in the line that match, in bytes from 0. */
    ranges: z.array(z.strictObject({ start: z.int(), end: z.int() })),
  }),
  /** `cut`: there may be more results: the limit or the time was up, or a line was too long. */
  line("end", { results: z.int(), cut: z.boolean() }),
])
export type SearchLine = z.infer<typeof SearchLine>

export const ArchiveQuery = z.strictObject({ path: FilePath })

/**
 * An entry of a folder that is not in its archive, and why. The archive has it in a comment of the POSIX form
 * (`comment=` in a global header), as JSON: programs that unpack it skip that.
 */
export const LeftOut = z.strictObject({
  /** The path relative to the folder. */
  path: FilePath,
  why: z.enum(["pipe", "socket", "device", "unreadable"]),
})
export type LeftOut = z.infer<typeof LeftOut>

/** The number of files, directories and links that were made. */
export const Extracted = z.strictObject({ entries: z.int().nonnegative() })

export const WatchQuery = z.strictObject({
  path: FilePath,
  /** Names of files and directories that are left out wherever they are; [] for none. */
  ignore: z.array(z.string().min(1)).max(MAX_IGNORED_NAMES).optional(),
})

/**
 * A change at one path. Changes in quick succession are reported once, by the last state. Entries of a removed
 * directory are not reported.
 */
export const FileChange = z.strictObject({
  /** The path relative to the watched folder; "." is the folder itself. */
  path: FilePath,
  /** `changed`: the file is there, new or with another content or mode. */
  change: z.enum(["changed", "removed"]),
})
export type FileChange = z.infer<typeof FileChange>

export const WatchMessage = z.discriminatedUnion("type", [
  /** Changes are reported from here on. */
  line("ready", { directories: z.int() }),
  line("changes", { changes: z.array(FileChange).min(1) }),
  /** Some changes were lost: a client that needs all of them lists the folder anew. */
  line("overflow", {}),
  /** The last message. */
  line("error", { error: SaidError }),
])
export type WatchMessage = z.infer<typeof WatchMessage>

type QueryValue = FilePath | number | boolean | readonly string[] | undefined

/** The query of a call, from one of the query objects above. */
export const fileQuery = (query: Readonly<Record<string, QueryValue>>): URLSearchParams => {
  const written = new URLSearchParams()
  for (const [key, value] of Object.entries(query)) {
    if (value === undefined) continue
    if (Array.isArray(value)) {
      // An empty list is written as one empty value.
      for (const each of value.length === 0 ? [""] : value) written.append(key, each)
    } else if (typeof value === "object" && "base64" in value) written.set(`${key}64`, value.base64)
    else if (key === "mode" && typeof value === "number") written.set(key, value.toString(8))
    else written.set(key, String(value))
  }
  return written
}
