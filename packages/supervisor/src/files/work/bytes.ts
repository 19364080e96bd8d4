import { isUtf8 } from "node:buffer"
import { BerthError } from "@berth/protocol/errors"
import type { Bytes, FilePath } from "@berth/protocol/files"
import { MAX_FILE_PATH_BYTES } from "@berth/protocol/files-limits"

/** Encodes bytes for the wire: as text if they are UTF-8, else as base64. */
export const toWire = (bytes: Buffer): Bytes =>
  isUtf8(bytes) ? bytes.toString("utf8") : { base64: bytes.toString("base64") }

export const fromWire = (bytes: Bytes): Buffer =>
  typeof bytes === "string" ? Buffer.from(bytes) : Buffer.from(bytes.base64, "base64")

const SLASH = Buffer.from("/")

export const joinBytes = (directory: Buffer, name: Buffer): Buffer =>
  directory.at(-1) === SLASH[0]
    ? Buffer.concat([directory, name])
    : Buffer.concat([directory, SLASH, name])

/** The absolute path of a file. A relative one is resolved against the workspace. */
export const locate = (path: FilePath, workspace: string): Buffer => {
  const bytes = fromWire(path)
  const wrong = (problem: string) =>
    new BerthError("input.invalid", `the path ${problem}`, { details: { path } })
  if (bytes.length === 0) throw wrong("is empty")
  if (bytes.includes(0)) throw wrong("contains a NUL byte")
  const located = bytes[0] === SLASH[0] ? bytes : joinBytes(Buffer.from(workspace), bytes)
  if (located.length > MAX_FILE_PATH_BYTES) throw wrong("is too long")
  return located
}

/** Splits a path into its directory and its last name. */
export const splitPath = (path: Buffer): { directory: Buffer; name: Buffer } => {
  let end = path.length
  while (end > 1 && path[end - 1] === SLASH[0]) end--
  const slash = path.subarray(0, end).lastIndexOf(SLASH)
  return {
    directory: slash === 0 ? SLASH : path.subarray(0, slash),
    name: path.subarray(slash + 1, end),
  }
}
