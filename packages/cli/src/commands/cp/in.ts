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
    const { size } = status
    const mode = status.mode & 0o777
    const isSizeKnown = size >= MIN_KNOWN_BYTES
    const content = contentOf(opened, { source, size, isSizeKnown, report })
    const how = { mode, parents: isFolder, size: isSizeKnown ? size : undefined, signal }
    await files.write(path, content, how)
  } finally {
    await opened.close()
  }
}

/** The bytes that are read at once, where the reader does not say how many. */
const BLOCK_BYTES = 256 * 1024

/** Files of the kernel have a size of zero or of a page, whatever is in them. Only a larger size is believed. */
const MIN_KNOWN_BYTES = 1024 * 1024

interface Source {
  readonly source: string
  readonly size: number
  readonly isSizeKnown: boolean
  readonly report: CopyReport
}

/** The content of a file. A file that grows meanwhile is copied up to its first size. */
const contentOf = (
  file: FileHandle,
  { source, size, isSizeKnown, report }: Source,
): ReadableStream<Uint8Array> => {
  let at = 0
  return new ReadableStream({
    type: "bytes",
    autoAllocateChunkSize: BLOCK_BYTES,
    pull: async (controller) => {
      // Both are there: the stream allocates by itself where its reader brings no buffer.
      const request = controller.byobRequest as ReadableStreamBYOBRequest
      const view = request.view as Uint8Array
      const most = size > 0 ? Math.min(view.length, size - at) : view.length
      const bytes = most === 0 ? 0 : await readInto(file, view.subarray(0, most), { source, at })
      if (bytes === 0 && isSizeKnown && at < size)
        throw new BerthError("input.usage", `${source} became shorter while it was copied`)
      at += bytes
      report.passed(bytes)
      if (bytes === 0) controller.close()
      request.respond(bytes)
    },
  })
}

const readInto = async (
  file: FileHandle,
  view: Uint8Array,
  { source, at }: { readonly source: string; readonly at: number },
): Promise<number> => {
  try {
    return (await file.read(view, 0, view.length, at)).bytesRead
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new BerthError("input.usage", `${source} cannot be read: ${code}`, { cause })
  }
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
