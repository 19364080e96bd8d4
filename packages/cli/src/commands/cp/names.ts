import { BerthError } from "@berth/protocol/errors"
import type { Bytes, FileEntry, FilePath } from "@berth/protocol/files"

/** Longer names fit into no file system (NAME_MAX). */
const MAX_NAME_BYTES = 255

/** Longer targets are refused by the kernel (PATH_MAX). */
const MAX_TARGET_BYTES = 4095

/** An entry of a sandbox's folder whose name is one part of a path. */
export interface NamedEntry {
  readonly name: Buffer
  readonly kind: FileEntry["kind"]
  readonly size: number
  readonly mode: number
  readonly target: Buffer | undefined
}

/**
 * Parses the entries of one folder. Each name appears once, also where a file system ignores case, the form in which
 * a letter is written, or characters that are not shown: there, two names would be one file.
 */
export const namedEntries = (entries: readonly FileEntry[]): NamedEntry[] => {
  const names = new Set<string>()
  const folded = new Map<string, string>()
  return entries.map(({ path, kind, size, mode, target }) => {
    const name = bytesOf(path)
    const text = name.toString("latin1")
    if (!isName(text)) throw violated("the sandbox listed what is no name")
    if (names.has(text)) throw violated("the sandbox listed a name twice")
    names.add(text)
    const other = folded.get(fold(name))
    if (other !== undefined) throw clash(other, name.toString())
    folded.set(fold(name), name.toString())
    return { name, kind, size, mode, target: kind === "link" ? targetOf(target) : undefined }
  })
}

/** The name that a copy has, unless its destination says another: that of its source. */
export const ownName = (path: Buffer): Buffer => {
  const parts = path.toString("latin1").split("/")
  const last = parts.findLast((part) => part !== "" && part !== ".") ?? ""
  if (isName(last)) return Buffer.from(last, "latin1")
  throw new BerthError("input.usage", "the copy has no name: say which, as in ./copy")
}

export const bytesOf = (bytes: Bytes): Buffer =>
  typeof bytes === "string" ? Buffer.from(bytes) : Buffer.from(bytes.base64, "base64")

/** The path of an entry in a folder of the sandbox, for the sandbox to read. */
export const below = (folder: FilePath, name: Buffer): FilePath => ({
  base64: Buffer.concat([bytesOf(folder), SLASH, name]).toString("base64"),
})

const SLASH = Buffer.from("/")

const isName = (text: string): boolean =>
  text !== "" &&
  text !== "." &&
  text !== ".." &&
  text.length <= MAX_NAME_BYTES &&
  !text.includes("/") &&
  !text.includes("\0")

/** Equal for names that a file system can take for one. Names that are not UTF-8 are compared as bytes. */
const fold = (name: Buffer): string => {
  const text = name.toString("utf8")
  if (!Buffer.from(text).equals(name)) return name.toString("latin1").toLowerCase()
  return text
    .replaceAll(/\p{Default_Ignorable_Code_Point}/gu, "")
    .normalize("NFD")
    .toUpperCase()
    .toLowerCase()
    .normalize("NFD")
}

const targetOf = (target: Bytes | undefined): Buffer => {
  const bytes = target === undefined ? Buffer.alloc(0) : bytesOf(target)
  if (bytes.length > 0 && bytes.length <= MAX_TARGET_BYTES && !bytes.includes(0)) return bytes
  throw violated("the sandbox listed a link that points to no path")
}

const violated = (message: string): BerthError =>
  new BerthError("bridge.protocol_violated", message)

const clash = (one: string, other: string): BerthError =>
  new BerthError("copy.names_clash", "a folder holds two names that some systems take for one", {
    details: { one, other },
  })
