import { constants } from "node:fs"
import { type FileHandle, mkdir, open, realpath, rename, stat, unlink } from "node:fs/promises"
import type { FilePath } from "@berth/protocol/files"
import { splitPath } from "./bytes.ts"
import { kindOf } from "./entry.ts"
import { systemCode, wrongKind } from "./failure.ts"
import type { Parts } from "./parts.ts"

const NEW_FILE_MODE = 0o644

export interface Placing {
  /** The name by which the caller knows the file. */
  readonly name: FilePath
  readonly mode?: number | undefined
  readonly parents?: boolean | undefined
  /** Whether the file survives a power loss once this resolves. */
  readonly durable?: boolean
  readonly parts: Parts
}

/** Writes a file aside, and renames it into place when it is whole. A failure leaves nothing behind. */
export const placeFile = async (
  path: Buffer,
  { name, mode, parents, durable = false, parts }: Placing,
  write: (file: FileHandle) => Promise<void>,
): Promise<void> => {
  if (path.at(-1) === 0x2f) throw wrongKind(name, "directory", "file")
  if (parents) await mkdir(splitPath(path).directory, { recursive: true })
  const old = await lookAt(path)
  const kind = old && kindOf(old)
  if (kind === "directory" || kind === "other") throw wrongKind(name, kind, "file")
  const target = old === undefined ? path : await realpath(path, { encoding: "buffer" })
  const aside = await parts.nameIn(splitPath(target).directory)
  const flags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY
  const file = await open(aside, flags, 0o600)
  try {
    try {
      await write(file)
      await file.chmod(mode ?? (old ? old.mode & 0o777 : NEW_FILE_MODE))
      // Synced before the rename: a name whose content is not on the disk reads as empty after a power loss.
      if (durable) await file.sync()
    } finally {
      await file.close()
    }
    await rename(aside, target)
    if (durable) await syncDirectory(splitPath(target).directory)
  } catch (thrown) {
    await unlink(aside).catch(() => {})
    throw thrown
  }
}

/**
 * Makes a new name survive a power loss. A directory that the user may write to but not read cannot be opened, and so
 * not synced.
 */
const syncDirectory = async (path: Buffer): Promise<void> => {
  try {
    await using directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY)
    await directory.sync()
  } catch (thrown) {
    if (systemCode(thrown) !== "EACCES") throw thrown
  }
}

/** Stats a path, following links; undefined if nothing is there. */
const lookAt = async (path: Buffer) => {
  try {
    return await stat(path)
  } catch (thrown) {
    if (systemCode(thrown) !== "ENOENT") throw thrown
    return undefined
  }
}
