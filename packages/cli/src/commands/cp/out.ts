import { stat } from "node:fs/promises"
import { basename, dirname } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { FileEntry } from "@berth/protocol/files"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { Budget, tooLarge } from "./budget.ts"
import { LocalFolder } from "./local-folder.ts"
import { ownName } from "./names.ts"
import { ofThisMachine } from "./of-this-machine.ts"
import type { CopyReport } from "./report.ts"
import { unpack } from "./unpack.ts"

/** The bytes that are copied of files of the kernel, as in /proc, which report a size of 0 but are not empty. */
const MAX_UNSAID_BYTES = 16 * 1024 * 1024

export interface CopyOptions {
  readonly signal: AbortSignal
  readonly report: CopyReport
}

/**
 * Copies a file or a folder of a sandbox to this machine. Everything from a sandbox may be hostile: a name is one part
 * of a path and nothing more, no link is written through, a mode has permission bits only, and everything is bounded.
 */
export const copyOut = async (
  { files }: Sandbox,
  source: string,
  destination: string,
  { signal, report }: CopyOptions,
): Promise<void> => {
  const found = await files.stat(source, { follow: true, signal })
  const { folder, name } = await placeOf(source, destination)
  try {
    if (found.kind === "link")
      throw new BerthError("bridge.protocol_violated", "the sandbox did not follow a link")
    if (found.kind === "other")
      throw new BerthError("input.usage", `${source} is neither a file nor a folder`)
    if (found.kind === "file") {
      const bytes = await files.readStream(source, { signal })
      await putFile(folder, name, found, report.counting(bytes))
    } else {
      const archive = await files.readArchive(source, { signal })
      await unpack(folder.enter(name), found, archive, report)
    }
  } finally {
    folder.close()
  }
  if (report.unreadable > 0)
    throw new BerthError("copy.incomplete", "some of it is closed to the sandbox's user", {
      details: { entries: report.unreadable },
    })
}

/** Writes a file. One that grows meanwhile is copied up to the size that was reported. */
const putFile = async (
  folder: LocalFolder,
  name: Buffer,
  found: FileEntry,
  bytes: AsyncIterable<Uint8Array>,
): Promise<void> => {
  const { size } = found
  new Budget().requireRoom(folder, size > 0 ? size : MAX_UNSAID_BYTES)
  await folder.putFile(
    name,
    found,
    size > 0 ? firstOf(bytes, size) : allOf(bytes, MAX_UNSAID_BYTES),
  )
}

async function* firstOf(bytes: AsyncIterable<Uint8Array>, most: number) {
  let left = most
  for await (const chunk of bytes) {
    yield chunk.subarray(0, left)
    left -= chunk.length
    if (left <= 0) return
  }
}

async function* allOf(bytes: AsyncIterable<Uint8Array>, most: number) {
  let left = most
  for await (const chunk of bytes) {
    left -= chunk.length
    if (left < 0) throw tooLarge("bytes in a file that says it is empty", most)
    yield chunk
  }
}

/** The destination of the copy: a folder that the caller named or that the name stands in, and a name in it. */
const placeOf = async (
  source: string,
  destination: string,
): Promise<{ folder: LocalFolder; name: Buffer }> => {
  try {
    const found = await stat(destination).catch(orNone)
    if (destination.endsWith("/") || found?.isDirectory())
      return { name: ownName(Buffer.from(source)), folder: LocalFolder.open(destination) }
    if (destination === "" || (found !== undefined && !found.isFile()))
      throw new BerthError("input.usage", `${destination} is neither a file nor a folder`)
    const name = ownName(Buffer.from(basename(destination)))
    return { name, folder: LocalFolder.open(dirname(destination)) }
  } catch (thrown) {
    throw ofThisMachine(thrown, destination)
  }
}

const orNone = (thrown: NodeJS.ErrnoException): undefined => {
  if (thrown.code !== "ENOENT") throw thrown
}
