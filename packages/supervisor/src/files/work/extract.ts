import { chmod, link, lstat, lutimes, mkdir, symlink, unlink, utimes } from "node:fs/promises"
import { BerthError } from "@berth/protocol/errors"
import { MAX_FILE_PATH_BYTES } from "@berth/protocol/files-limits"
import { TAR, TarProblem } from "@berth/protocol/tar-header"
import { readTar, type TarEntry } from "@berth/protocol/tar-read"
import { joinBytes, toWire } from "./bytes.ts"
import { failure, systemCode } from "./failure.ts"
import type { Parts } from "./parts.ts"
import { placeFile } from "./place.ts"
import { writeStream } from "./write.ts"

/**
 * The permission bits that are taken from an archive. The set-id bits are dropped: the extracted files belong to the
 * extracting user, not to the archive's owners.
 */
const MODE_BITS = 0o777

/**
 * Extracts an archive below the folder and nowhere else: no entry's name leads out of it, neither by `..` nor through a
 * link, including the archive's own links. Returns the number of entries.
 */
export const extract = async (
  folder: Buffer,
  chunks: AsyncIterable<Buffer>,
  parts: Parts,
): Promise<number> => {
  await mkdir(folder, { recursive: true })
  try {
    return await putAll(readTar(chunks), new Place(folder, parts))
  } catch (thrown) {
    throw thrown instanceof TarProblem ? refused(thrown.message) : thrown
  }
}

const putAll = async (archive: AsyncIterable<TarEntry>, place: Place): Promise<number> => {
  let entries = 0
  for await (const entry of archive) {
    if (entry.type === TAR.extendedForAll) continue
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
  /** Directories that are known to be no links. The keys are paths as latin1 text. */
  readonly #known = new Set<string>()
  /**
   * Modes and times of directories, to be set last: a read-only directory could not be filled, and filling it changes
   * its time.
   */
  readonly #directories: { path: Buffer; mode: number; seconds: number }[] = []

  constructor(folder: Buffer, parts: Parts) {
    this.#folder = folder
    this.#parts = parts
  }

  async put(entry: TarEntry): Promise<void> {
    const parts = partsOf(entry.name)
    if (entry.type === TAR.directory) return await this.#putDirectory(parts, entry)
    const path = await this.#within(parts, entry.name)
    if (entry.type === TAR.file) await putFile(path, entry, this.#parts)
    else if (entry.type === TAR.link) {
      await makeRoom(path)
      await symlink(entry.target, path)
      await lutimes(path, entry.modifiedAtMs / 1000, entry.modifiedAtMs / 1000)
    } else if (entry.type === TAR.hardLink) {
      const target = await this.#within(partsOf(entry.target), entry.target)
      if (!(await lstat(target)).isFile()) throw bad("a hard link to what is no file", entry.name)
      await makeRoom(path)
      await link(target, path)
    } else throw bad("an entry that is neither file, directory nor link", entry.name)
  }

  async finish(): Promise<void> {
    for (const { path, mode, seconds } of this.#directories.toReversed()) {
      await utimes(path, seconds, seconds)
      await chmod(path, mode)
    }
  }

  async #putDirectory(parts: readonly Buffer[], { mode, modifiedAtMs }: TarEntry): Promise<void> {
    const path = await this.#directory(parts)
    if (parts.length === 0) return
    this.#directories.push({ path, mode: mode & MODE_BITS, seconds: modifiedAtMs / 1000 })
  }

  /** The path of an entry. Makes the directories above it. */
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
  // A write would go through the link.
  if (old?.isSymbolicLink()) await unlink(path)
  const placing = { name: toWire(name), mode: mode & MODE_BITS, parts }
  await placeFile(path, placing, async (file) => {
    await writeStream(file, content)
    await file.utimes(modifiedAtMs / 1000, modifiedAtMs / 1000)
  })
}

/** Removes the old entry, for kinds that cannot be replaced atomically. */
const makeRoom = (path: Buffer): Promise<void> =>
  unlink(path).catch((thrown) => {
    if (systemCode(thrown) !== "ENOENT") throw thrown
  })

/** Splits an entry's name into its parts. Throws if it leads out of the folder. */
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

const refused = (problem: string, details: Record<string, unknown> = {}): BerthError =>
  new BerthError("files.archive_refused", `the archive is not taken: ${problem}`, { details })

const bad = (problem: string, name: Buffer) => refused(`it has ${problem}`, { entry: toWire(name) })
