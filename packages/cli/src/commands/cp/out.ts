import { randomBytes } from "node:crypto"
import { createWriteStream } from "node:fs"
import { chmod, lstat, mkdir, rename, rm, stat, symlink } from "node:fs/promises"
import { posix } from "node:path"
import { Readable } from "node:stream"
import { pipeline } from "node:stream/promises"
import type { ReadableStream as NodeStream } from "node:stream/web"
import { BerthError } from "@berth/protocol/errors"
import type { Bytes, FileEntry, FilePath } from "@berth/protocol/files"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { ofThisMachine } from "./of-this-machine.ts"

/** Files that are fetched at once. */
const AT_ONCE = 8

/**
 * Copies a file or a folder of a sandbox to this machine. What is inside is hostile: each name is one part of a
 * path and nothing more, no link is written through, and no mode gives more than permissions.
 */
export const copyOut = async (
  { files }: Sandbox,
  source: string,
  destination: string,
  signal: AbortSignal,
): Promise<void> => {
  const entry = await files.stat(source, { follow: true, signal })
  const found = await stat(destination).catch(() => undefined)
  const isInto = destination.endsWith("/") || found?.isDirectory() === true
  const name = posix.basename(posix.normalize(source))
  const path = Buffer.from(isInto ? posix.join(destination, partOf(name).toString()) : destination)

  const one = async (from: FilePath, to: Buffer, { kind, mode, target }: FileEntry) => {
    if (kind === "directory") return await folder(from, to, mode)
    if (kind === "file") return await file(from, to, mode)
    if (kind === "link" && target !== undefined) {
      await rm(to, { force: true })
      return await symlink(bytesOf(target), to)
    }
    throw new BerthError("input.usage", `${shown(from)} is neither a file, a folder nor a link`)
  }
  const file = async (from: FilePath, to: Buffer, mode: number) => {
    const bytes = await files.readStream(from, { signal })
    // Beside it: what is there is not written through, be it a link, and stays until the new one is whole.
    const aside = asideOf(to)
    try {
      const written = createWriteStream(aside, { flags: "wx", mode: mode & 0o777 })
      await pipeline(Readable.fromWeb(bytes as NodeStream), written, { signal })
      await rename(aside, to)
    } catch (thrown) {
      await rm(aside, { force: true })
      throw ofThisMachine(thrown, to.toString())
    }
  }
  const folder = async (from: FilePath, to: Buffer, mode: number) => {
    await makeFolder(to)
    const { entries, cut } = await files.list(from, { signal })
    if (cut) throw new BerthError("input.too_large", `${shown(from)} holds more than can be listed`)
    for (let next = 0; next < entries.length; next += AT_ONCE)
      await Promise.all(
        entries.slice(next, next + AT_ONCE).map((entry) => {
          const part = partOf(entry.path)
          return one(below(from, part), Buffer.concat([to, SLASH, part]), entry)
        }),
      )
    await chmod(to, mode & 0o777)
  }
  await one(source, path, entry)
}

const SLASH = Buffer.from("/")

/** In the same folder, under a name that fits whatever the other's is. */
const asideOf = (path: Buffer): Buffer => {
  const folder = path.subarray(0, path.lastIndexOf(SLASH) + 1)
  return Buffer.concat([folder, Buffer.from(`.berth-${randomBytes(8).toString("hex")}.part`)])
}

/** One part of a path; whatever else a sandbox says is refused. */
const partOf = (name: FilePath): Buffer => {
  const bytes = bytesOf(name)
  const text = bytes.toString("latin1")
  if (text !== "" && text !== "." && text !== ".." && !/[/\0]/.test(text)) return bytes
  throw new BerthError("bridge.protocol_violated", "the sandbox listed what is no name")
}

const below = (folder: FilePath, part: Buffer): FilePath => ({
  base64: Buffer.concat([bytesOf(folder), SLASH, part]).toString("base64"),
})

const bytesOf = (bytes: Bytes): Buffer =>
  typeof bytes === "string" ? Buffer.from(bytes) : Buffer.from(bytes.base64, "base64")

const makeFolder = async (path: Buffer): Promise<void> => {
  try {
    await mkdir(path)
  } catch (thrown) {
    // One that is there is filled, unless it only seems to be there.
    if (!(await lstat(path).catch(() => undefined))?.isDirectory()) throw thrown
  }
}

const shown = (path: FilePath): string => bytesOf(path).toString("utf8")
