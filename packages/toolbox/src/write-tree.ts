import { chmodSync, constants, copyFileSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs"
import { copyFile, open } from "node:fs/promises"
import { dirname, join } from "node:path"
import { pathsOf } from "./links.ts"
import type { Planned } from "./plan.ts"
import { breathe, type Reading, readInChunks, SMALL_BYTES } from "./read-file.ts"

export const FILE_MODE = 0o444
const PROGRAM_MODE = 0o555
export const DIRECTORY_MODE = 0o555

interface Writing {
  readonly signal: AbortSignal
  readonly onBytes: (bytes: number, entry: string) => void
  /** Called when the last file of an entry is written. */
  readonly onEntry: (entry: string) => void | Promise<void>
}

/** Writes the planned files below a directory. They are copies: a later change of an input does not reach them. */
export const writeTree = async (
  tree: string,
  planned: readonly Planned[],
  { signal, onBytes, onEntry }: Writing,
): Promise<void> => {
  const made = new Set<string>()
  const rest = new Map<string, number>()
  for (const { entry } of planned) rest.set(entry, (rest.get(entry) ?? 0) + 1)
  for (const each of planned) {
    await breathe(signal)
    const path = join(tree, each.path)
    const parent = dirname(path)
    if (!made.has(parent)) mkdirSync(parent, { recursive: true })
    made.add(parent)
    await writeOne(path, each, { signal, onBytes: (bytes) => onBytes(bytes, each.entry) })
    const left = (rest.get(each.entry) ?? 0) - 1
    rest.set(each.entry, left)
    if (left === 0) await onEntry(each.entry)
  }
}

/** Makes every directory read-only, innermost first. */
export const closeDirectories = (tree: string, planned: readonly Planned[]): void => {
  const files = new Set(planned.map(({ path }) => path))
  const directories = [...pathsOf(planned)].filter((path) => !files.has(path))
  for (const path of directories.sort().reverse()) chmodSync(join(tree, path), DIRECTORY_MODE)
  chmodSync(tree, DIRECTORY_MODE)
}

const writeOne = async (path: string, planned: Planned, reading: Reading): Promise<void> => {
  switch (planned.kind) {
    case "link":
      symlinkSync(planned.target, path)
      return
    case "text":
      writeFileSync(path, planned.text, { flag: "wx" })
      chmodSync(path, FILE_MODE)
      return
    case "file":
      await copy(planned, path, reading)
      chmodSync(path, planned.executable ? PROGRAM_MODE : FILE_MODE)
  }
}

/** Copies a file. Shares its blocks until one side writes, where the file system can do that. */
const copy = async (
  { from, stats: { size } }: Extract<Planned, { kind: "file" }>,
  to: string,
  reading: Reading,
): Promise<void> => {
  if (size <= SMALL_BYTES) {
    copyFileSync(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
    reading.onBytes(Number(size))
  } else if (await shared(from, to)) {
    reading.onBytes(Number(size))
  } else {
    await copyInChunks(from, to, reading)
  }
}

/**
 * Tries to share a file's blocks. The reason for a refusal does not matter: the copy that follows tells what is really
 * wrong.
 */
const shared = async (from: string, to: string): Promise<boolean> => {
  try {
    await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE_FORCE)
    return true
  } catch {
    return false
  }
}

const copyInChunks = async (from: string, to: string, reading: Reading): Promise<void> => {
  const target = await open(to, "w")
  try {
    await readInChunks(from, reading, async (chunk) => {
      for (let at = 0; at < chunk.length; ) at += (await target.write(chunk, at)).bytesWritten
    })
  } finally {
    await target.close()
  }
}
