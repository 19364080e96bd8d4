import { readFileSync } from "node:fs"
import { link, mkdir, open, rename, rm } from "node:fs/promises"
import { dirname } from "node:path"
import { syncDirectory } from "@berth/host/sync-directory"
import { BerthError } from "@berth/protocol/errors"
import type { z } from "zod"
import { hasCode, ioError } from "../io/io-error.ts"

/** The ending of files that do not count until they are renamed. */
export const ASIDE = ".new"

/** Writes a record so that a crash, or a loss of power, leaves the old one or the new one. */
export const writeRecord = async (file: string, record: object): Promise<void> => {
  await prepareRecord(file, record)
  await putRecord(file)
}

/** The first half of `writeRecord`: the record is on disk, and does not count yet. */
export const prepareRecord = (file: string, record: object): Promise<void> =>
  writeAside(file, record, true)

/** The second half of `writeRecord`: the prepared record takes its place. */
export const putRecord = (file: string): Promise<void> =>
  attempt(file, async () => {
    await rename(file + ASIDE, file)
    await syncDirectory(dirname(file))
  })

/** Writes a record into a draft, which counts for nothing until it is renamed as a whole. */
export const writeDraftRecord = (file: string, record: object): Promise<void> =>
  attempt(file, () => writeText(file, record, true))

/** Writes a record that means nothing after a loss of power, which ends every sandbox. */
export const writePassingRecord = async (file: string, record: object): Promise<void> => {
  await writeAside(file, record, false)
  await attempt(file, () => rename(file + ASIDE, file))
}

/** Writes a passing record that must not exist yet; false if it does. */
export const writeNewPassingRecord = async (file: string, record: object): Promise<boolean> => {
  await writeAside(file, record, false)
  return attempt(file, async () => {
    try {
      // Unlike a rename, a link never replaces a file.
      await link(file + ASIDE, file)
      return true
    } catch (thrown) {
      if (hasCode(thrown, "EEXIST")) return false
      throw thrown
    } finally {
      await rm(file + ASIDE, { force: true })
    }
  })
}

/**
 * Reads a record; undefined if there is no such file. Synchronous: records are a few hundred bytes that the kernel has
 * in its cache, and a way through the thread pool takes some thirty times as long.
 */
export const readRecord = async <Schema extends z.ZodType>(
  file: string,
  schema: Schema,
): Promise<z.infer<Schema> | undefined> => {
  let text: string
  try {
    text = readFileSync(file, "utf8")
  } catch (thrown) {
    if (hasCode(thrown, "ENOENT") || hasCode(thrown, "ENOTDIR")) return undefined
    throw ioError(thrown, file)
  }
  try {
    return schema.parse(JSON.parse(text))
  } catch (cause) {
    throw new BerthError("layers.damaged", `${file} cannot be read`, { details: { file }, cause })
  }
}

export const removeRecord = (file: string): Promise<void> =>
  attempt(file, async () => {
    await rm(file, { force: true })
    await syncDirectory(dirname(file))
  })

/** Removes a record that does no harm if it comes back after a loss of power. */
export const removePassingRecord = (file: string): Promise<void> =>
  attempt(file, () => rm(file, { force: true }))

const writeAside = (file: string, record: object, durably: boolean): Promise<void> =>
  attempt(file, async () => {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    try {
      await writeText(file + ASIDE, record, durably)
    } catch (thrown) {
      await rm(file + ASIDE, { force: true })
      throw thrown
    }
  })

const writeText = async (file: string, record: object, durably: boolean): Promise<void> => {
  await using handle = await open(file, "w", 0o600)
  await handle.writeFile(`${JSON.stringify(record)}\n`)
  if (durably) await handle.sync()
}

const attempt = async <Result>(file: string, work: () => Promise<Result>): Promise<Result> => {
  try {
    return await work()
  } catch (thrown) {
    throw ioError(thrown, file)
  }
}
