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
 * **Writing.** A file is written aside in the same directory and then renamed, so that a reader sees the old
 * one or the new one, and a write that fails leaves the old one. What a link points to is replaced, not the
 * link. A new file has mode 644 unless `mode` says otherwise; one that is replaced keeps its mode. It is not
 * forced to the disk: after a power loss either may be there.
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

/** Bytes: as text where they are UTF-8. */
export const Bytes = z.union([z.string(), z.strictObject({ base64: z.base64() })])
export type Bytes = z.infer<typeof Bytes>

/** A path or a name. It holds no NUL, and is not empty. */
export const FilePath = z.union([
  z
    .string()
    .min(1)
    .refine((path) => !path.includes("\0"), "must not contain a NUL byte"),
  z.strictObject({ base64: z.base64().min(1) }),
])
export type FilePath = z.infer<typeof FilePath>

/** Permission bits: 0o644 is 420. */
export const FileMode = z.int().min(0).max(0o7777)

export const FileKind = z.enum(["file", "directory", "link", "other"])
export type FileKind = z.infer<typeof FileKind>

export const FileEntry = z.strictObject({
  /** In a listing relative to the folder listed, else as it was asked for. */
  path: FilePath,
  kind: FileKind,
  size: z.int().nonnegative(),
  mode: FileMode,
  uid: z.int().nonnegative(),
  gid: z.int().nonnegative(),
  modifiedAtMs: z.number(),
  /** Changes with the content; the same as the header of `GET /files/content`. */
  etag: z.string(),
  /** Where a link points to. */
  target: Bytes.optional(),
})
export type FileEntry = z.infer<typeof FileEntry>

export const ContentQuery = z.strictObject({ path: FilePath })

export const WriteQuery = z.strictObject({
  path: FilePath,
  mode: FileMode.optional(),
  /** Makes the directories above that are missing. */
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

/** As errors travel, see `WireError`. */
const SaidError = z.looseObject({ code: z.string(), message: z.string() })

/** In the order of the request; `error` is absent where the file is in place. */
export const WrittenFiles = z.strictObject({
  files: z.array(z.strictObject({ path: FilePath, error: SaidError.optional() })),
})
export type WrittenFiles = z.infer<typeof WrittenFiles>

export const ListQuery = z.strictObject({
  path: FilePath,
  /** 1: what lies in the folder itself, which is the default. Links are not followed. */
  depth: z.int().min(1).max(MAX_LIST_DEPTH).optional(),
  limit: z.int().min(1).max(MAX_LIST_ENTRIES).optional(),
})

/** By path. Where there is more than the limit, what lies higher comes first, and `cut` is true. */
export const FileList = z.strictObject({ entries: z.array(FileEntry), cut: z.boolean() })
export type FileList = z.infer<typeof FileList>

/** With `follow`, of what a link points to. */
export const StatQuery = z.strictObject({ path: FilePath, follow: z.boolean().optional() })

export const MakeDirectory = z.strictObject({
  path: FilePath,
  mode: FileMode.optional(),
  /** Makes those above, too, and is content with one that is there. */
  parents: z.boolean().optional(),
})
export type MakeDirectory = z.infer<typeof MakeDirectory>

/** Within one file system: another one answers `files.failed` with the code EXDEV in its details. */
export const MoveFile = z.strictObject({
  from: FilePath,
  to: FilePath,
  /** Whether a file may be put in the place of another; a directory never is. */
  replace: z.boolean().optional(),
})
export type MoveFile = z.infer<typeof MoveFile>

export const RemoveQuery = z.strictObject({
  path: FilePath,
  /** Also a directory with what is in it. */
  recursive: z.boolean().optional(),
})

/** By name, by content, or by content in the files of that name. */
export const SearchQuery = z.strictObject({
  path: FilePath,
  /** A glob in the manner of .gitignore, of paths below the folder. */
  name: z.string().min(1).max(MAX_PATTERN_CHARS).optional(),
  /** A regular expression of ripgrep. */
  content: z.string().min(1).max(MAX_PATTERN_CHARS).optional(),
  ignoreCase: z.boolean().optional(),
  /** Also what is hidden, and what .gitignore leaves out. */
  all: z.boolean().optional(),
  limit: z.int().min(1).max(MAX_SEARCH_RESULTS).optional(),
})

const line = <Type extends string, Shape extends z.ZodRawShape>(type: Type, shape: Shape) =>
  z.strictObject({ type: z.literal(type), ...shape })

export const SearchLine = z.discriminatedUnion("type", [
  line("file", { path: FilePath }),
  line("match", {
    path: FilePath,
    /** From 1. */
    line: z.int().positive(),
    /** The line, of a long one the beginning. */
    text: Bytes,
    /** Where in the line it matches, in bytes from 0. */
    ranges: z.array(z.strictObject({ start: z.int(), end: z.int() })),
  }),
  /** `cut`: there may be more than was found: the limit or the time was up, or a line was too long. */
  line("end", { results: z.int(), cut: z.boolean() }),
])
export type SearchLine = z.infer<typeof SearchLine>

export const ArchiveQuery = z.strictObject({ path: FilePath })

/**
 * Entries of a folder that are not in its archive, and why. The archive says so in a comment of the POSIX form
 * (`comment=` in a global header), as JSON: programs that unpack it pass over that.
 */
export const LeftOut = z.strictObject({
  /** Relative to the folder. */
  path: FilePath,
  why: z.enum(["pipe", "socket", "device", "unreadable"]),
})
export type LeftOut = z.infer<typeof LeftOut>

/** Files, directories and links that were made. */
export const Extracted = z.strictObject({ entries: z.int().nonnegative() })

export const WatchQuery = z.strictObject({
  path: FilePath,
  /** Names of files and directories that are left out wherever they are; [] for none. */
  ignore: z.array(z.string().min(1)).max(MAX_IGNORED_NAMES).optional(),
})

/**
 * What happened in quick succession at one path is told once, by how it ended. What lay in a directory that is
 * removed is not told of.
 */
export const FileChange = z.strictObject({
  /** Relative to the folder watched; "." is the folder itself. */
  path: FilePath,
  /** `changed`: it is there, new or with another content or mode. */
  change: z.enum(["changed", "removed"]),
})
export type FileChange = z.infer<typeof FileChange>

export const WatchMessage = z.discriminatedUnion("type", [
  /** What happens from here on is told. */
  line("ready", { directories: z.int() }),
  line("changes", { changes: z.array(FileChange).min(1) }),
  /** Some changes were lost: whoever needs all of them lists the folder anew. */
  line("overflow", {}),
  /** It ends with this one. */
  line("error", { error: SaidError }),
])
export type WatchMessage = z.infer<typeof WatchMessage>

type QueryValue = FilePath | number | boolean | readonly string[] | undefined

/** The query of a call, from one of the queries above. */
export const fileQuery = (query: Readonly<Record<string, QueryValue>>): URLSearchParams => {
  const written = new URLSearchParams()
  for (const [key, value] of Object.entries(query)) {
    if (value === undefined) continue
    if (Array.isArray(value)) {
      // A list of none is said by one that is empty.
      for (const each of value.length === 0 ? [""] : value) written.append(key, each)
    } else if (typeof value === "object" && "base64" in value) written.set(`${key}64`, value.base64)
    else if (key === "mode" && typeof value === "number") written.set(key, value.toString(8))
    else written.set(key, String(value))
  }
  return written
}
