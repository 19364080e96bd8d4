import type { BigIntStats } from "node:fs"
import { lstat, readlink, stat } from "node:fs/promises"
import type { FileEntry, FileKind, FilePath } from "@berth/protocol/files"
import { toWire } from "./bytes.ts"

/** Describes the file at a path, under the name by which the caller knows it. */
export const entryAt = async (
  path: Buffer,
  name: FilePath,
  { follow = false }: { follow?: boolean } = {},
): Promise<FileEntry> => {
  const found = follow ? await stat(path, { bigint: true }) : await lstat(path, { bigint: true })
  const entry = entryOf(found, name)
  if (entry.kind !== "link") return entry
  return { ...entry, target: toWire(await readlink(path, { encoding: "buffer" })) }
}

export const entryOf = (found: BigIntStats, path: FilePath): FileEntry => ({
  path,
  kind: kindOf(found),
  size: Number(found.size),
  mode: Number(found.mode & 0o7777n),
  uid: Number(found.uid),
  gid: Number(found.gid),
  modifiedAtMs: Number(found.mtimeNs / 1000n) / 1000,
  etag: etagOf(found),
})

/** The etag of a file. It includes the inode, so that a replacement differs even if its time was set back. */
export const etagOf = ({ mtimeNs, size, ino }: BigIntStats): string =>
  `"${[mtimeNs, size, ino].map((number) => number.toString(36)).join("-")}"`

export const kindOf = (found: {
  isFile(): boolean
  isDirectory(): boolean
  isSymbolicLink(): boolean
}): FileKind => {
  if (found.isFile()) return "file"
  if (found.isDirectory()) return "directory"
  return found.isSymbolicLink() ? "link" : "other"
}
