import { constants } from "node:fs"
import { type FileHandle, open } from "node:fs/promises"
import { basename, posix, resolve } from "node:path"
import { Readable } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import { batched } from "@berth/protocol/tar-batch"
import type { Sandbox } from "@berth/sdk/sandboxes"
import type { CopyOptions } from "./out.ts"
import { pack } from "./pack.ts"
import type { CopyReport } from "./report.ts"

/**
 * Copies a file or a folder of this machine into a sandbox. The sandbox is looked up only when the file is known to
 * exist.
 */
export const copyIn = async (
  find: () => Promise<Sandbox>,
  source: string,
  destination: string,
  { signal, report }: CopyOptions,
): Promise<void> => {
  // Without O_NONBLOCK, a named pipe would be waited for.
  const opened = await open(source, constants.O_RDONLY | constants.O_NONBLOCK).catch((cause) => {
    throw new BerthError("input.usage", `${source} cannot be read: ${cause.code}`, { cause })
  })
  try {
    const status = await opened.stat()
    if (!status.isDirectory() && !status.isFile())
      throw new BerthError("input.usage", `${source} is neither a file nor a folder`)
    const { files } = await find()
    const isFolder = destination.endsWith("/") || (await isDirectory(files, destination, signal))
    const path = isFolder ? posix.join(destination, basename(resolve(source))) : destination
    if (status.isDirectory()) {
      // The owner must be able to fill the folder.
      const mode = (status.mode & 0o777) | 0o700
      await files.makeDirectory(path, { parents: true, mode, signal })
      await sendFolder(source, report, (archive) => files.writeArchive(path, archive, { signal }))
      return
    }
    const mode = status.mode & 0o777
    const content = contentOf(opened, status.size).pipeThrough(counting(report))
    await files.write(path, content, { mode, parents: isFolder, signal })
  } finally {
    await opened.close()
  }
}

/** The bytes that are read at once. */
const BLOCK_BYTES = 256 * 1024

/**
 * The content of a file. A file that grows meanwhile is copied up to its first size. Files of the kernel report a size
 * of 0.
 */
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

/**
 * Packs a folder while it is sent. A failure on this machine is reported, not the failure of the call that it ended.
 */
const sendFolder = async (
  folder: string,
  report: CopyReport,
  send: (archive: ReadableStream<Uint8Array>) => Promise<unknown>,
): Promise<void> => {
  let failure: unknown
  const archive = Readable.from(batched(pack(folder, report)))
  archive.on("error", (error) => {
    failure ??= error
  })
  try {
    await send(Readable.toWeb(archive) as ReadableStream<Uint8Array>)
  } catch (thrown) {
    throw failure instanceof BerthError ? failure : thrown
  }
}

const counting = (report: CopyReport): TransformStream<Uint8Array, Uint8Array> =>
  new TransformStream({
    transform: (chunk, controller) => {
      report.passed(chunk.length)
      controller.enqueue(chunk)
    },
  })

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
