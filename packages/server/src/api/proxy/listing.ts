import type { FileList, FilePath } from "@berth/protocol/files"
import { MAX_FILE_PATH_BYTES } from "@berth/protocol/files-limits"

/** The kernel's own bound on a file name (NAME_MAX). */
const MAX_NAME_BYTES = 255

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/**
 * Why a listing cannot be one of a folder, or undefined. Clients make files by these names, so each names one place
 * below the folder, in one way, and nothing lies below a file. Names that differ only by case are two names here; a
 * client whose disk treats them as one must check itself.
 */
export const problemOfListing = ({ entries }: FileList): string | undefined => {
  const kinds = new Map<string, string>()
  for (const { path, kind } of entries) {
    const name = nameOf(path)
    if (name === undefined) return "a name that is none"
    if (kinds.has(name)) return "a name twice"
    kinds.set(name, kind)
  }
  for (const name of kinds.keys()) {
    const above = name.slice(0, Math.max(name.lastIndexOf("/"), 0))
    if (above !== "" && (kinds.get(above) ?? "directory") !== "directory")
      return "a file below what is no directory"
  }
  return undefined
}

/** Whether a path names one place below a folder, in one way. */
export const isPathBelow = (path: FilePath): boolean => nameOf(path) !== undefined

/**
 * The bytes of a path below the folder, one character each; undefined: the path is not below it, or not in its normal
 * form.
 */
const nameOf = (path: FilePath): string | undefined => {
  const bytes = typeof path === "string" ? ofText(path) : ofBase64(path.base64)
  if (bytes === undefined || bytes.length > MAX_FILE_PATH_BYTES || bytes.includes(0))
    return undefined
  const name = bytes.toString("latin1")
  const isBelow = name
    .split("/")
    .every((part) => part !== "" && part !== "." && part !== ".." && part.length <= MAX_NAME_BYTES)
  return isBelow ? name : undefined
}

const ofText = (text: string): Buffer | undefined =>
  text.isWellFormed() ? Buffer.from(text) : undefined

/** Base64 is valid only for bytes that are no text: otherwise one name could be written in two ways. */
const ofBase64 = (base64: string): Buffer | undefined => {
  const bytes = Buffer.from(base64, "base64")
  if (bytes.toString("base64") !== base64) return undefined
  try {
    UTF8.decode(bytes)
    return undefined
  } catch {
    return bytes
  }
}
