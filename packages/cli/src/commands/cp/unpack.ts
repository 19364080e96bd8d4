import { BerthError } from "@berth/protocol/errors"
import { LeftOut } from "@berth/protocol/files"
import { TAR, TarProblem } from "@berth/protocol/tar-header"
import { readTar, type TarEntry } from "@berth/protocol/tar-read"
import { Budget } from "./budget.ts"
import type { Attributes, LocalFolder } from "./local-folder.ts"
import { Names, partsOf, targetOf, violated } from "./names.ts"
import type { CopyReport } from "./report.ts"

/** A folder that is being filled. */
interface Level {
  readonly folder: LocalFolder
  readonly name: Buffer
  readonly names: Names
  readonly attributes: Attributes
  /** The links of the folder, made when it is full: no link of the sandbox lies where other entries are put. */
  readonly links: Link[]
  heldBytes: number
}

interface Link {
  readonly name: Buffer
  readonly target: Buffer
  readonly attributes: Attributes
}

/**
 * Fills a folder of this machine from an archive that a sandbox made. The archive is hostile: each entry must lie in
 * the folder that came right before it, or in one above, as in tar's own order. So every folder is made here and held
 * open while it is filled, a folder that was left is never entered again, and an entry's path is only compared with the
 * names of the open folders, never followed.
 */
export const unpack = async (
  top: LocalFolder,
  attributes: Attributes,
  archive: AsyncIterable<Uint8Array>,
  report: CopyReport,
): Promise<void> => {
  const unpacking = new Unpacking(top, attributes, report)
  try {
    for await (const entry of readTar(buffersOf(archive))) await unpacking.put(entry)
    unpacking.finish()
  } catch (thrown) {
    if (!(thrown instanceof TarProblem)) throw thrown
    throw violated(`the sandbox sent an archive that is none: ${thrown.message}`)
  } finally {
    unpacking.giveUp()
  }
}

class Unpacking {
  readonly #budget = new Budget()
  readonly #report: CopyReport
  /** The open folders, from the top to the one that is being filled. */
  readonly #levels: Level[]

  constructor(folder: LocalFolder, attributes: Attributes, report: CopyReport) {
    this.#levels = [levelOf(folder, Buffer.alloc(0), attributes)]
    this.#report = report
  }

  async put(entry: TarEntry): Promise<void> {
    if (entry.type === TAR.extendedForAll) {
      this.#budget.count()
      this.#report.leftOut(leftOutIn(entry))
      return
    }
    const parts = partsOf(entry.name, entry.type === TAR.directory)
    const name = parts.pop() ?? Buffer.alloc(0)
    const level = this.#goTo(parts)
    level.heldBytes += this.#budget.hold(name.length + entry.target.length, parts.length)
    level.names.add(name)
    await this.#make(entry, name, level)
    this.#report.copied()
  }

  async #make(entry: TarEntry, name: Buffer, { folder, links }: Level): Promise<void> {
    const { type, size, content } = entry
    const attributes = { mode: entry.mode, modifiedAtMs: entry.modifiedAtMs }
    if (type === TAR.directory) this.#levels.push(levelOf(folder.enter(name), name, attributes))
    else if (type === TAR.file) {
      this.#budget.requireRoom(folder, size)
      await folder.putFile(name, attributes, this.#report.counting(content))
    } else if (type === TAR.link) links.push({ name, target: targetOf(entry.target), attributes })
    else throw violated("the sandbox sent an entry that is neither a file, a folder nor a link")
  }

  /** Goes to the open folder of an entry. The folders below it are full, and are left. */
  #goTo(parts: readonly Buffer[]): Level {
    const isOpen = parts.every((part, depth) => this.#levels[depth + 1]?.name.equals(part))
    const level = this.#levels[parts.length]
    if (!isOpen || level === undefined)
      throw violated("the sandbox sent an entry of a folder that is not open")
    while (this.#levels.length > parts.length + 1) this.#leave()
    return level
  }

  /** Leaves all folders. */
  finish(): void {
    while (this.#levels.length > 0) this.#leave()
  }

  /** Leaves all folders of a copy that has failed: each gets its mode, and no links. */
  giveUp(): void {
    for (const { folder, attributes } of this.#levels.splice(0).toReversed()) {
      try {
        settle(folder, attributes)
      } catch {
        // The copy has failed for another reason, which is reported.
      }
    }
  }

  /** Leaves a folder that is full. */
  #leave(): void {
    const level = this.#levels.at(-1)
    if (level === undefined) return
    for (const { name, target, attributes } of level.links)
      level.folder.putLink(name, target, attributes)
    this.#levels.pop()
    this.#budget.giveBack(level.heldBytes)
    settle(level.folder, level.attributes)
  }
}

const levelOf = (folder: LocalFolder, name: Buffer, attributes: Attributes): Level => ({
  folder,
  name,
  names: new Names(),
  attributes,
  links: [],
  heldBytes: 0,
})

const settle = (folder: LocalFolder, attributes: Attributes): void => {
  try {
    folder.settle(attributes)
  } finally {
    folder.close()
  }
}

const leftOutIn = ({ comment }: TarEntry): LeftOut => {
  try {
    return LeftOut.parse(JSON.parse(String(comment)))
  } catch (cause) {
    throw new BerthError(
      "bridge.protocol_violated",
      "the sandbox sent an invalid remark about a skipped entry",
      {
        cause,
      },
    )
  }
}

/** Views of the same memory as Buffers, from which tar is read. */
async function* buffersOf(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  for await (const { buffer, byteOffset, byteLength } of chunks)
    yield Buffer.from(buffer, byteOffset, byteLength)
}
