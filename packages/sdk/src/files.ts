import {
  type Bytes,
  Extracted,
  FileEntry,
  FileList,
  type FilePath,
  fileQuery,
  SearchLine,
  type SearchQuery,
  WatchMessage,
  type WriteFiles,
  WrittenFiles,
} from "@berth/protocol/files"
import { MAX_LIST_ENTRIES } from "@berth/protocol/files-limits"
import { toBase64 } from "./base64.ts"
import {
  type Ask,
  type CallOptions,
  type Connection,
  call,
  command,
  parseJson,
  type ReplySchema,
  type Sendable,
  stream,
} from "./call.ts"
import { readLines } from "./lines.ts"
import type { Place } from "./place.ts"
import { notBerth } from "./reply-error.ts"
import { openSocket } from "./socket.ts"

export interface WriteOptions extends CallOptions {
  /** The mode, as in 0o644. */
  readonly mode?: number
  /** Makes the missing directories above. */
  readonly parents?: boolean
}

export interface WriteFileOptions extends WriteOptions {
  /** The exact number of bytes of a stream. A stream whose size is known takes less time. */
  readonly size?: number | undefined
}

/** The files of a sandbox. A relative path is below the workspace; one that is not UTF-8 is `{ base64 }`. */
export interface Files {
  read(path: FilePath, options?: CallOptions): Promise<Uint8Array>
  readText(path: FilePath, options?: CallOptions): Promise<string>
  /** Reads a file of any size; with `from` and `to` (the last byte, included) a part of it. */
  readStream(
    path: FilePath,
    options?: CallOptions & { readonly from?: number; readonly to?: number },
  ): Promise<ReadableStream<Uint8Array>>
  /** Writes a file of any size, whole or not at all. */
  write(path: FilePath, content: Sendable, options?: WriteFileOptions): Promise<FileEntry>
  /** Writes many small files at once; each result has the error of that file, if any. */
  writeMany(
    files: readonly { path: FilePath; content: Bytes | Uint8Array; mode?: number }[],
    options?: Omit<WriteOptions, "mode">,
  ): Promise<WrittenFiles["files"]>
  list(
    path: FilePath,
    options?: CallOptions & { readonly depth?: number; readonly limit?: number },
  ): Promise<FileList>
  stat(path: FilePath, options?: CallOptions & { readonly follow?: boolean }): Promise<FileEntry>
  makeDirectory(path: FilePath, options?: WriteOptions): Promise<FileEntry>
  move(
    from: FilePath,
    to: FilePath,
    options?: CallOptions & { readonly replace?: boolean },
  ): Promise<FileEntry>
  remove(path: FilePath, options?: CallOptions & { readonly recursive?: boolean }): Promise<void>
  /** Searches by name, by content or by both. The last line is `end`, and says whether there is more. */
  search(
    query: ReturnType<typeof SearchQuery.parse>,
    options?: CallOptions,
  ): AsyncIterable<SearchLine>
  /** Watches a folder, until the loop is left or the signal fires. */
  watch(
    path: FilePath,
    options?: CallOptions & { readonly ignore?: readonly string[] },
  ): AsyncIterable<WatchMessage>
  /**
   * A folder's contents, as a tar archive. The sandbox made it, and nobody has checked it: unpack it where a path, a
   * link or a device in it does no harm.
   */
  readArchive(path: FilePath, options?: CallOptions): Promise<ReadableStream<Uint8Array>>
  /** Unpacks a tar archive into a folder; returns the number of entries. */
  writeArchive(path: FilePath, archive: Sendable, options?: CallOptions): Promise<number>
}

/** The deadline of a file or a tree of any size: the server gives up much earlier on a sandbox that has stopped. */
const TRANSFER_DEADLINE_MS = 24 * 60 * 60_000

/** The bound on a reply: the longest listing fits, and all other replies by far. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024

/** Removing or listing a large tree takes a while. */
const TREE_DEADLINE_MS = 60_000

/** Entries are counted before they are parsed: parsing an invalid one costs more than its bytes. */
const Listing: ReplySchema<FileList> = {
  safeParse: (value) => {
    const entries = (value as Partial<FileList> | undefined)?.entries
    if (Array.isArray(entries) && entries.length > MAX_LIST_ENTRIES) return { success: false }
    return FileList.safeParse(value)
  },
}

export const filesOf = (place: Place): Files => ({
  ...contentsOf(place),
  ...entriesOf(place),
  ...flowsOf(place),
  ...archivesOf(place),
})

/** The calls for the contents of files. */
const contentsOf = ({
  connection,
  at,
}: Place): Pick<Files, "readStream" | "read" | "readText" | "write" | "writeMany"> => {
  const readStream: Files["readStream"] = (path, { from, to, ...options } = {}) => {
    const isPart = from !== undefined || to !== undefined
    const headers = isPart ? { range: `bytes=${from ?? 0}-${to ?? ""}` } : {}
    return stream(connection, { path: at("/files/content", fileQuery({ path })), headers }, options)
  }
  return {
    readStream,
    read: async (path, options) => await new Response(await readStream(path, options)).bytes(),
    readText: async (path, options) => await new Response(await readStream(path, options)).text(),
    write: (path, content, { mode, parents, ...options } = {}) => {
      const where = at("/files/content", fileQuery({ path, mode, parents }))
      return send(connection, { path: where, body: content }, FileEntry, options)
    },
    writeMany: async (files, { parents, ...options } = {}) => {
      const json: WriteFiles = {
        files: files.map(({ content, ...file }) => ({ ...file, content: written(content) })),
        ...(parents !== undefined && { parents }),
      }
      const ask = { method: "POST", path: at("/files/write"), json } as const
      return (await askShort(connection, ask, WrittenFiles, options)).files
    },
  }
}

/** The calls for directories and the entries in them. */
const entriesOf = ({
  connection,
  at,
}: Place): Pick<Files, "list" | "stat" | "makeDirectory" | "move" | "remove"> => ({
  list: (path, { depth, limit, ...options } = {}) => {
    const ask = { path: at("/files/list", fileQuery({ path, depth, limit })) }
    return askShort(connection, ask, Listing, options)
  },
  stat: (path, { follow, ...options } = {}) => {
    const ask = { path: at("/files/stat", fileQuery({ path, follow })) }
    return askShort(connection, ask, FileEntry, options)
  },
  makeDirectory: (path, { mode, parents, ...options } = {}) => {
    const json = { path, mode, parents }
    const ask = { method: "POST", path: at("/files/mkdir"), json } as const
    return askShort(connection, ask, FileEntry, options)
  },
  move: (from, to, { replace, ...options } = {}) => {
    const json = { from, to, replace }
    const ask = { method: "POST", path: at("/files/move"), json } as const
    return askShort(connection, ask, FileEntry, options)
  },
  remove: (path, { recursive, signal, deadlineMs = TREE_DEADLINE_MS } = {}) => {
    const ask = { method: "DELETE", path: at("/files", fileQuery({ path, recursive })) } as const
    return command(connection, ask, { signal, deadlineMs })
  },
})

/** The calls whose answer comes bit by bit. */
const flowsOf = ({ connection, at }: Place): Pick<Files, "search" | "watch"> => ({
  search: async function* (query, options) {
    const ask = { path: at("/files/search", fileQuery(query)) }
    for await (const line of readLines(await stream(connection, ask, options))) {
      const parsed = SearchLine.safeParse(parseJson(line))
      if (!parsed.success) throw notBerth(connection.url, 200)
      yield parsed.data
    }
  },
  watch: async function* (path, { ignore, ...options } = {}) {
    const query = fileQuery({ path, ignore })
    const socket = await openSocket(connection, at("/files/watch", query), options)
    try {
      for (;;) {
        const frame = await socket.next()
        if (frame === undefined) return
        const parsed = WatchMessage.safeParse(parseJson(String(frame)))
        if (!parsed.success) throw notBerth(connection.url, 0)
        yield parsed.data
      }
    } finally {
      socket.close()
    }
  },
})

/** The calls for archives of folders. */
const archivesOf = ({ connection, at }: Place): Pick<Files, "readArchive" | "writeArchive"> => ({
  readArchive: (path, options) =>
    stream(connection, { path: at("/files/archive", fileQuery({ path })) }, options),
  writeArchive: async (path, archive, options = {}) => {
    const where = at("/files/archive", fileQuery({ path }))
    return (await send(connection, { path: where, body: archive }, Extracted, options)).entries
  },
})

/** Asks for a reply of bounded length. */
const askShort = <Reply>(
  connection: Connection,
  ask: Ask,
  schema: ReplySchema<Reply>,
  { signal, deadlineMs = TREE_DEADLINE_MS }: CallOptions,
): Promise<Reply> =>
  call(connection, { ...ask, maxReplyBytes: MAX_REPLY_BYTES }, schema, { signal, deadlineMs })

/** Sends content of any size. */
const send = <Reply>(
  connection: Connection,
  { path, body }: { readonly path: string; readonly body: Sendable },
  schema: ReplySchema<Reply>,
  { signal, deadlineMs = TRANSFER_DEADLINE_MS, size }: WriteFileOptions,
): Promise<Reply> => {
  const headers = {
    "content-type": "application/octet-stream",
    // Browsers leave this header out, as they must.
    ...(size !== undefined && { "content-length": String(size) }),
  }
  return askShort(connection, { method: "PUT", path, body, headers }, schema, {
    signal,
    deadlineMs,
  })
}

/** Bytes are sent as base64, whether they are text or not. */
const written = (content: Bytes | Uint8Array): Bytes =>
  content instanceof Uint8Array ? { base64: toBase64(content) } : content
