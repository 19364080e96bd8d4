import { constants } from "node:fs"
import { mkdir, open, readdir, rm, stat } from "node:fs/promises"
import { join } from "node:path"
import { SessionId, Slug } from "@berth/protocol/ids"

const MIB = 1024 * 1024

/** The bounds on the files of one session: the latest ones are kept. */
export const REST_FILE_BYTES = 16 * MIB
export const REST_FILES = 4

/** The bound on all files of one workspace. The oldest are removed first. */
export const WORKSPACE_REST_BYTES = 256 * MIB

/** How far a session's files are written. It is stored with the events, so that a crash repeats nothing. */
export interface RestPlace {
  /** The number of the file that is being written. */
  readonly file: number
  readonly bytes: number
}

/**
 * Files for the output that the event log left out: one event a line, in files of each session below a directory of its
 * workspace. Only the owner of the server's data may read them.
 */
export interface RestFiles {
  /** Writes lines at that place, over anything there, and returns the place after them. */
  write(owner: RestOwner, place: RestPlace, lines: string): Promise<RestPlace>
  /** The names of a session's files, as a shell pattern. */
  pattern(owner: RestOwner): string
  /** Removes the files of workspaces that no longer exist. */
  keepOnly(workspaces: ReadonlySet<string>): Promise<void>
}

export interface RestOwner {
  readonly workspace: Slug
  readonly session: SessionId
}

export const openRestFiles = (root: string): RestFiles => {
  // Parsed, because a name that is no slug or id could be a path.
  const directoryOf = ({ workspace }: RestOwner) => join(root, Slug.parse(workspace))
  const pathOf = (owner: RestOwner, file: number | "*") =>
    join(directoryOf(owner), `${SessionId.parse(owner.session)}.${file}.jsonl`)

  const write = async (owner: RestOwner, place: RestPlace, lines: string): Promise<RestPlace> => {
    const bytes = Buffer.from(lines)
    const isFull = place.bytes > 0 && place.bytes + bytes.length > REST_FILE_BYTES
    const { file, bytes: at } = isFull ? { file: place.file + 1, bytes: 0 } : place
    if (at === 0) {
      await mkdir(directoryOf(owner), { recursive: true, mode: 0o700 })
      await rm(pathOf(owner, file - REST_FILES), { force: true })
      await removeOldest(directoryOf(owner), WORKSPACE_REST_BYTES - REST_FILE_BYTES)
    }
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW
    const handle = await open(pathOf(owner, file), flags, 0o600)
    try {
      await handle.write(bytes, 0, bytes.length, at)
      await handle.truncate(at + bytes.length)
    } finally {
      await handle.close()
    }
    return { file, bytes: at + bytes.length }
  }

  return {
    write,
    pattern: (owner) => pathOf(owner, "*"),
    keepOnly: async (workspaces) => {
      for (const name of await readdir(root).catch(() => []))
        if (!workspaces.has(name)) await rm(join(root, name), { recursive: true, force: true })
    },
  }
}

/** Removes the oldest files until the others have no more than that many bytes. */
const removeOldest = async (directory: string, maxBytes: number): Promise<void> => {
  const files = await Promise.all(
    (await readdir(directory)).map(async (name) => {
      const path = join(directory, name)
      const { size, mtimeMs } = await stat(path)
      return { path, size, mtimeMs }
    }),
  )
  let bytes = files.reduce((sum, { size }) => sum + size, 0)
  for (const { path, size } of files.sort((one, other) => one.mtimeMs - other.mtimeMs)) {
    if (bytes <= maxBytes) return
    await rm(path, { force: true })
    bytes -= size
  }
}
