import { chmod, link, lstat, mkdir, symlink, unlink } from "node:fs/promises"
import { MAX_FILE_PATH_BYTES } from "@berth/protocol/files-limits"
import { joinBytes, toWire } from "./bytes.ts"
import { failure, systemCode } from "./failure.ts"
import type { Parts } from "./parts.ts"
import { placeFile } from "./place.ts"
import { refused, TAR } from "./tar/header.ts"
import { readTar, type TarEntry } from "./tar/read.ts"
import { writeStream } from "./write.ts"

/** Whoever extracts is the owner of what they get: to run as the owner of the archive's files means nothing here. */
const MODE_BITS = 0o777

/**
 * Makes of an archive what is in it, below the folder and nowhere else: no entry's name leads out of it, neither
 * by `..` nor through a link, one of the archive's own included. Returns how many entries it took.
 */
export const extract = async (
  folder: Buffer,
  chunks: AsyncIterable<Buffer>,
  parts: Parts,
): Promise<number> => {
  await mkdir(folder, { recursive: true })
  const place = new Place(folder, parts)
  let entries = 0
  for await (const entry of readTar(chunks)) {
    try {
      await place.put(entry)
    } catch (thrown) {
      throw failure(thrown, "extract", toWire(entry.name))
    }
    entries++
  }
  await place.finish()
  return entries
}

class Place {
  readonly #folder: Buffer
  readonly #parts: Parts
  /** Directories that are known to be no links, by their bytes as text. */
  readonly #known = new Set<string>()
  /** Told last: one that nobody may write to could not be filled. */
  readonly #modes: [Buffer, number][] = []

  constructor(folder: Buffer, parts: Parts) {
    this.#folder = folder
    this.#parts = parts
  }

  async put(entry: TarEntry): Promise<void> {
    const parts = partsOf(entry.name)
    if (entry.type === TAR.directory) return await this.#putDirectory(parts, entry.mode)
    const path = await this.#within(parts, entry.name)
    if (entry.type === TAR.file) await putFile(path, entry, this.#parts)
    else if (entry.type === TAR.link) {
      await makeRoom(path)
      await symlink(entry.target, path)
    } else if (entry.type === TAR.hardLink) {
      const target = await this.#within(partsOf(entry.target), entry.target)
      if (!(await lstat(target)).isFile()) throw bad("a hard link to what is no file", entry.name)
      await makeRoom(path)
      await link(target, path)
    } else throw bad("an entry that is neither file, directory nor link", entry.name)
  }

  async finish(): Promise<void> {
    for (const [path, mode] of this.#modes.toReversed()) await chmod(path, mode)
  }

  async #putDirectory(parts: readonly Buffer[], mode: number): Promise<void> {
    const path = await this.#directory(parts)
    if (parts.length > 0) this.#modes.push([path, mode & MODE_BITS])
  }

  /** Where an entry belongs, with the directories above it. */
  async #within(parts: readonly Buffer[], name: Buffer): Promise<Buffer> {
    const last = parts.at(-1)
    if (last === undefined) throw bad("an entry without a name", name)
    return joinBytes(await this.#directory(parts.slice(0, -1)), last)
  }

  async #directory(parts: readonly Buffer[]): Promise<Buffer> {
    let path = this.#folder
    for (const part of parts) {
      path = joinBytes(path, part)
      const key = path.toString("latin1")
      if (this.#known.has(key)) continue
      await makeDirectory(path, parts)
      this.#known.add(key)
    }
    return path
  }
}

const makeDirectory = async (path: Buffer, parts: readonly Buffer[]): Promise<void> => {
  try {
    await mkdir(path)
  } catch (thrown) {
    if (systemCode(thrown) !== "EEXIST") throw thrown
    if (!(await lstat(path)).isDirectory())
      throw bad(
        "an entry below a link or a file",
        Buffer.concat(parts.flatMap((part) => [SLASH, part])),
      )
  }
}

const SLASH = Buffer.from("/")

const putFile = async (
  path: Buffer,
  { name, mode, modifiedAtMs, content }: TarEntry,
  parts: Parts,
) => {
  const old = await lstat(path).catch(() => undefined)
  // It would be written to where the link leads.
  if (old?.isSymbolicLink()) await unlink(path)
  const placing = { name: toWire(name), mode: mode & MODE_BITS, parts }
  await placeFile(path, placing, async (file) => {
    await writeStream(file, content)
    await file.utimes(modifiedAtMs / 1000, modifiedAtMs / 1000)
  })
}

/** For what cannot be put in the place of another at one blow. */
const makeRoom = (path: Buffer): Promise<void> =>
  unlink(path).catch((thrown) => {
    if (systemCode(thrown) !== "ENOENT") throw thrown
  })

/** The names on the way. */
const partsOf = (name: Buffer): Buffer[] => {
  if (name.includes(0) || name.length > MAX_FILE_PATH_BYTES) throw bad("a name that is none", name)
  if (name[0] === SLASH[0]) throw bad("an entry that leads out of the folder", name)
  const parts = name
    .toString("latin1")
    .split("/")
    .filter((part) => part !== "" && part !== ".")
  if (parts.includes("..")) throw bad("an entry that leads out of the folder", name)
  return parts.map((part) => Buffer.from(part, "latin1"))
}

const bad = (problem: string, name: Buffer) => refused(`it has ${problem}`, { entry: toWire(name) })
