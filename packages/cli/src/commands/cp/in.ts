import { spawn } from "node:child_process"
import { once } from "node:events"
import { constants } from "node:fs"
import { type FileHandle, open } from "node:fs/promises"
import { basename, posix, resolve } from "node:path"
import { Readable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import type { Sandbox } from "@berth/sdk/sandboxes"

/** Copies a file or a folder of this machine into a sandbox. */
export const copyIn = async (
  { files }: Sandbox,
  source: string,
  destination: string,
  signal: AbortSignal,
): Promise<void> => {
  // Without O_NONBLOCK, a named pipe would be waited for.
  const opened = await open(source, constants.O_RDONLY | constants.O_NONBLOCK).catch((cause) => {
    throw new BerthError("input.usage", `${source} cannot be read: ${cause.code}`, { cause })
  })
  try {
    const status = await opened.stat()
    const isFolder = destination.endsWith("/") || (await isDirectory(files, destination, signal))
    const path = isFolder ? posix.join(destination, basename(resolve(source))) : destination
    if (status.isDirectory()) {
      await files.makeDirectory(path, { parents: true, signal })
      await pack(source, signal, (archive) => files.writeArchive(path, archive, { signal }))
      return
    }
    if (!status.isFile())
      throw new BerthError("input.usage", `${source} is neither a file nor a folder`)
    const mode = status.mode & 0o777
    await files.write(path, contentOf(opened, status.size), { mode, parents: isFolder, signal })
  } finally {
    await opened.close()
  }
}

/** As much as is read at once. */
const BLOCK_BYTES = 256 * 1024

/** A file that grows meanwhile is copied as long as it was. Files of the kernel say that they are empty. */
const contentOf = (file: FileHandle, size: number): ReadableStream<Uint8Array> => {
  const end = size > 0 ? { end: size - 1 } : {}
  const bytes = file.createReadStream({
    ...end,
    start: 0,
    autoClose: false,
    highWaterMark: BLOCK_BYTES,
  })
  return Readable.toWeb(bytes) as ReadableStream<Uint8Array>
}

const isDirectory = async (
  files: Sandbox["files"],
  path: string,
  signal: AbortSignal,
): Promise<boolean> => {
  try {
    return (await files.stat(path, { follow: true, signal })).kind === "directory"
  } catch (thrown) {
    if (thrown instanceof BerthError && thrown.status === 404) return false
    throw thrown
  }
}

/** What is in a folder, as tar packs it. */
const pack = async (
  folder: string,
  signal: AbortSignal,
  send: (archive: ReadableStream<Uint8Array>) => Promise<unknown>,
): Promise<void> => {
  const tar = spawn("tar", ["--create", "--directory", folder, "."], {
    ...{ stdio: ["ignore", "pipe", "pipe"], signal },
  })
  let said = ""
  tar.stderr.on("data", (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(-2_000)
  })
  const ended = once(tar, "close")
  ended.catch(() => {})
  try {
    await send(Readable.toWeb(tar.stdout) as ReadableStream<Uint8Array>)
    // A tar that has sent all it had ends by itself; another is told that nobody reads.
    tar.stdout.destroy()
  } catch (thrown) {
    tar.kill()
    throw thrown
  }
  const [status] = await ended
  if (status !== 0)
    throw new BerthError("input.usage", `${folder} could not be packed`, {
      details: { tarSaid: said },
    })
}
