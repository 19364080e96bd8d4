import { BerthError } from "@berth/protocol/errors"
import { refuse } from "../tar/refuse.ts"
import { isSparse, sparseBody, sparsePath, sparseRecords } from "../tar/sparse.ts"
import type { TarEntry } from "../tar/tar-read.ts"
import { type KnownPaths, knownPaths } from "./known-paths.ts"

export interface ArchiveLimits {
  readonly maxEntries: number
  /** The most bytes of all contents, unpacked. */
  readonly maxBytes: number
  /** The most bytes of all paths and link targets: tar keeps those of directories and links until its end. */
  readonly maxNameBytes: number
}

/** Above the size of one workspace, below what would fill a disk unseen. */
export const DEFAULT_LIMITS: ArchiveLimits = {
  maxEntries: 2_000_000,
  maxBytes: 256 * 1024 ** 3,
  maxNameBytes: 512 * 1024 ** 2,
}

/** Counts an archive's entries and bytes, and refuses more than its limits. */
export const countWithin = (limits: ArchiveLimits) => {
  const counted = { maxEntries: 0, maxBytes: 0, maxNameBytes: 0 }
  return (entryBytes: number, nameBytes: number): void => {
    counted.maxEntries += 1
    counted.maxBytes += entryBytes
    counted.maxNameBytes += nameBytes
    for (const limit of Object.keys(counted) as (keyof ArchiveLimits)[])
      tooLarge(limit, counted[limit], limits)
  }
}

/** The changes to entries on the way into or out of an archive. */
export interface Translation {
  /** The name that every entry of the tree lies below; the tree itself comes first. */
  readonly root: string
  /** The name in its place. */
  readonly newRoot: string
  /** The new owner; undefined refuses the entry. */
  owner(id: number): number | undefined
  xattrs(pax: ReadonlyMap<string, Buffer>, entry: string): Map<string, Buffer>
}

/**
 * Lets through the entries that a tree may hold, and nothing else, written anew: tar unpacks exactly what was checked
 * here. Every name is unique and lies in a directory that came before it, so no entry can be written through a link.
 * The target of a symbolic link is content: nothing on the host ever follows one, and inside it leads nowhere but into
 * the sandbox.
 */
export async function* admit(
  entries: AsyncIterable<TarEntry>,
  { root, newRoot, owner, xattrs }: Translation,
  count: ReturnType<typeof countWithin>,
): AsyncGenerator<TarEntry> {
  const known = knownPaths()
  const renamed = (path: string): string => newRoot + path.slice(root.length)
  for await (const entry of entries) {
    const sparse = isSparse(entry)
    const path = checkedPath(sparse ? sparsePath(entry) : entry.path, root)
    if (known.kindOf(path) !== undefined) refuse("a name comes twice", path)
    if (path === root ? entry.type !== "5" : known.kindOf(parentOf(path)) !== "directory") {
      refuse("it does not lie in a directory that came before it", path)
    }
    if (sparse && entry.type !== "0") refuse("only a file can be sparse", path)
    checkType(entry, path, known)
    known.add(path, entry.type === "5")
    count(entry.bodyBytes, path.length + entry.linkPath.length)
    yield {
      ...entry,
      path: renamed(path),
      mode: entry.mode & 0o7777,
      uid: owner(entry.uid) ?? refuse(`no sandbox has the user ${entry.uid}`, path),
      gid: owner(entry.gid) ?? refuse(`no sandbox has the group ${entry.gid}`, path),
      linkPath: linkOf(entry, renamed),
      pax: new Map([
        ...(sparse ? sparseRecords(entry, renamed(path)) : []),
        ...xattrs(entry.pax, path),
      ]),
      body: sparse ? sparseBody(entry) : entry.body,
    }
  }
  if (known.count === 0) refuse("it is empty", "")
}

const MAX_PATH_BYTES = 4_096
const MAX_NAME_BYTES = 255

const linkOf = ({ type, linkPath }: TarEntry, renamed: (path: string) => string): string => {
  if (type === "1") return renamed(linkPath)
  return type === "2" ? linkPath : ""
}

const checkedPath = (raw: string, root: string): string => {
  const path = raw.endsWith("/") ? raw.slice(0, -1) : raw
  if (path.length > MAX_PATH_BYTES) refuse(`a path is longer than ${MAX_PATH_BYTES} bytes`, path)
  const names = path.split("/")
  const wellFormed =
    names[0] === root &&
    names.every(
      (name) =>
        name !== "" &&
        name !== "." &&
        name !== ".." &&
        name.length <= MAX_NAME_BYTES &&
        !name.includes("\0"),
    )
  return wellFormed ? path : refuse("a name leads out of the tree", raw)
}

const parentOf = (path: string): string => path.slice(0, path.lastIndexOf("/"))

const checkType = (entry: TarEntry, path: string, known: KnownPaths): void => {
  if (entry.type !== "0" && entry.bodyBytes > 0) refuse("only a file has contents", path)
  switch (entry.type) {
    case "0": // a file
    case "5": // a directory
    case "6": // a named pipe
      return
    case "1": // another name of a file
      if (known.kindOf(entry.linkPath) !== "other")
        refuse("a hard link leads out of the tree", path)
      return
    case "2": // a symbolic link
      if (entry.linkPath === "" || entry.linkPath.length > MAX_PATH_BYTES) {
        refuse("a symbolic link has no usable target", path)
      }
      return
    case "3": // devices, of which an overlay takes some for marks
    case "4":
      refuse("it is a device", path)
      return
    default:
      refuse(`its type ${JSON.stringify(entry.type)} is unknown`, path)
  }
}

export const tooLarge = (
  limit: keyof ArchiveLimits,
  value: number,
  limits: ArchiveLimits,
): void => {
  if (value <= limits[limit]) return
  throw new BerthError("layers.archive_too_large", `the archive exceeds ${limit}`, {
    details: { limit, most: limits[limit] },
  })
}
