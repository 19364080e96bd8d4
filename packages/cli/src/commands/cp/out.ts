import { stat } from "node:fs/promises"
import { basename, dirname } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { FilePath } from "@berth/protocol/files"
import type { Files } from "@berth/sdk/files"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { Budget, tooLarge } from "./budget.ts"
import { eachAtOnce } from "./each-at-once.ts"
import { LocalFolder } from "./local-folder.ts"
import { below, bytesOf, type NamedEntry, namedEntries, ownName } from "./names.ts"
import { ofThisMachine } from "./of-this-machine.ts"

/** Files of one folder that are fetched at once. */
const FILES_AT_ONCE = 8

/** Folders that are filled at once, wherever they are: with those above them they are held open. */
const FOLDERS_AT_ONCE = 8

/** Files of the kernel, as in /proc, say that they are empty, and are not: as much is taken of them. */
const MAX_UNSAID_BYTES = 16 * 1024 * 1024

/**
 * Copies a file or a folder of a sandbox to this machine. All that a sandbox says is hostile: a name is one part of a
 * path and nothing more, no link is written through, no mode gives more than permissions, and all of it is bounded.
 */
export const copyOut = async (
  { files }: Sandbox,
  source: string,
  destination: string,
  signal: AbortSignal,
): Promise<void> => {
  const { kind, size, mode } = await files.stat(source, { follow: true, signal })
  const { folder, name } = await placeOf(source, destination)
  try {
    if (kind === "link")
      throw new BerthError("bridge.protocol_violated", "the sandbox did not follow a link")
    const copy = new Copy(files)
    await copy.put({ name, kind, size, mode, target: undefined }, source, folder, {
      depth: 0,
      signal,
    })
  } finally {
    await folder.close()
  }
}

interface Step {
  readonly depth: number
  readonly signal: AbortSignal
}

class Copy {
  readonly #files: Files
  readonly #budget = new Budget()
  #spareBranches = FOLDERS_AT_ONCE - 1

  constructor(files: Files) {
    this.#files = files
  }

  /** Puts an entry of the sandbox into a folder of this machine. */
  async put(entry: NamedEntry, from: FilePath, folder: LocalFolder, step: Step): Promise<void> {
    const { name, kind, target } = entry
    if (kind === "directory") await this.#fill(entry, from, folder, step)
    else if (kind === "file") await this.#fetch(entry, from, folder, step)
    else if (kind === "link" && target !== undefined) await folder.putLink(name, target)
    else {
      const shown = bytesOf(from).toString()
      throw new BerthError("input.usage", `${shown} is neither a file, a folder nor a link`)
    }
  }

  async #fill(
    { name, mode }: NamedEntry,
    from: FilePath,
    above: LocalFolder,
    { depth, signal }: Step,
  ): Promise<void> {
    const folder = await above.enter(name)
    try {
      const { entries, cut } = await this.#files.list(from, { signal })
      if (cut) throw tooLarge("entries in a folder", entries.length)
      const named = namedEntries(entries)
      const put = (entry: NamedEntry, signal: AbortSignal) =>
        this.put(entry, below(from, entry.name), folder, { depth: depth + 1, signal })
      await this.#budget.holding(depth, named, async () => {
        const of = (...kinds: NamedEntry["kind"][]) =>
          named.filter(({ kind }) => kinds.includes(kind))
        await eachAtOnce(of("file", "other"), FILES_AT_ONCE, signal, put)
        const folders = of("directory")
        await this.#branching(folders.length, (most) => eachAtOnce(folders, most, signal, put))
        // Links come last.
        await eachAtOnce(of("link"), 1, signal, put)
      })
    } finally {
      try {
        await folder.settle(mode)
      } finally {
        await folder.close()
      }
    }
  }

  /** Says how many folders can be filled at once: one always, and more as long as others do not. */
  async #branching(wanted: number, run: (most: number) => Promise<void>): Promise<void> {
    const more = Math.max(0, Math.min(this.#spareBranches, wanted - 1))
    this.#spareBranches -= more
    try {
      await run(1 + more)
    } finally {
      this.#spareBranches += more
    }
  }

  /** A file that grows meanwhile is copied as far as its size was told. */
  async #fetch(
    { name, size, mode }: NamedEntry,
    from: FilePath,
    folder: LocalFolder,
    { signal }: Step,
  ): Promise<void> {
    const most = size > 0 ? size : MAX_UNSAID_BYTES
    await this.#budget.reserving(folder, most, async () => {
      const bytes = await this.#files.readStream(from, { signal })
      await folder.putFile(name, mode, (file) =>
        file.writeFile(size > 0 ? firstOf(bytes, size) : allOf(bytes, most), { signal }),
      )
    })
  }
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

/** Where the copy goes: a folder that the caller named or that the name stands in, and a name in it. */
const placeOf = async (
  source: string,
  destination: string,
): Promise<{ folder: LocalFolder; name: Buffer }> => {
  try {
    const found = await stat(destination).catch(orNone)
    if (destination.endsWith("/") || found?.isDirectory())
      return { name: ownName(Buffer.from(source)), folder: await LocalFolder.open(destination) }
    if (destination === "" || (found !== undefined && !found.isFile()))
      throw new BerthError("input.usage", `${destination} is neither a file nor a folder`)
    const name = ownName(Buffer.from(basename(destination)))
    return { name, folder: await LocalFolder.open(dirname(destination)) }
  } catch (thrown) {
    throw ofThisMachine(thrown, destination)
  }
}

const orNone = (thrown: NodeJS.ErrnoException): undefined => {
  if (thrown.code !== "ENOENT") throw thrown
}
