import { createHash, randomUUID } from "node:crypto"
import { type BigIntStats, lstatSync, readdirSync, readFileSync } from "node:fs"
import {
  chmod,
  copyFile,
  lstat,
  mkdir,
  readdir,
  readlink,
  rename,
  rm,
  stat,
  symlink,
  writeFile,
} from "node:fs/promises"
import { dirname, join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { asBackendError } from "./files-error.ts"
import type { PreparedSystem } from "./prepared.ts"
import type { Entry, SystemPlan } from "./tree.ts"

/** The most attempts to write a root, when the host's files change in the middle of it. */
const ATTEMPTS = 3
const ASIDE = ".new-"
/** The name of a root that is being removed: no key begins like this. */
const LEAVING = ".old-"

/**
 * A part of each key, raised when roots are made or removed in another way. Servers of before it removed a root under its
 * own name, so that one that was killed meanwhile left a half of it.
 */
const GENERATION = 2

/**
 * Gives the plan's root directory below `directory`, complete: made once per content and boot, written aside and
 * renamed. Concurrent callers with the same plan get the same one.
 */
export const writeSkeleton = async (
  plan: SystemPlan,
  directory: string,
  signal: AbortSignal,
): Promise<PreparedSystem> => {
  try {
    if (!(await exists(directory))) await makeDirectory(directory, 0o755)
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      signal.throwIfAborted()
      const key = keyOf(plan)
      const root = join(directory, key)
      if (await exists(root)) return { key, root, binds: plan.binds }
      const aside = join(directory, `${ASIDE}${randomUUID()}`)
      try {
        await writeTree(plan.entries, aside, signal)
        // The key names the content before the copy, so it holds for the copy only if the host has not changed
        // meanwhile.
        if (keyOf(plan) === key) await renameOnce(aside, root)
      } finally {
        await rm(aside, { recursive: true, force: true })
      }
    }
  } catch (thrown) {
    signal.throwIfAborted()
    throw asBackendError(thrown, "preparing the system tree")
  }
  throw new BerthError("backend.engine_failed", "the host's /etc changes all the time", {
    details: { attempts: ATTEMPTS },
  })
}

/**
 * Removes every root except those that sandboxes still stand on, and half-written ones that a crash left. Only while
 * nothing is being prepared. A root is renamed before anything of it is removed: what a crash leaves of it is not taken
 * for a root.
 */
export const pruneSystems = async (
  directory: string,
  keep: ReadonlySet<string>,
): Promise<readonly string[]> => {
  const names = await readdir(directory).catch((thrown: NodeJS.ErrnoException) => {
    if (thrown.code === "ENOENT") return []
    throw asBackendError(thrown, "looking for system trees")
  })
  const unused = names.filter((name) => !keep.has(name))
  for (const name of unused) {
    const leaving = name.startsWith(".") ? name : `${LEAVING}${randomUUID()}`
    if (leaving !== name) await rename(join(directory, name), join(directory, leaving))
    await rm(join(directory, leaving), { recursive: true, force: true })
  }
  return unused
}

/**
 * A key for the content, without reading it: a link changes only together with its directory, a file only together with
 * its change time. The boot counts as well, since nothing here is forced onto the disk: after a power loss no tree is
 * taken for complete. Synchronous calls: a hundred of them take less time than one turn of the thread pool takes for
 * each.
 */
const keyOf = ({ entries }: SystemPlan): string => {
  const hash = createHash("sha256")
  hash.update(`${GENERATION}\n`)
  hash.update(readFileSync("/proc/sys/kernel/random/boot_id", "utf8"))
  for (const [path, entry] of [...entries].sort(([one], [other]) => (one < other ? -1 : 1))) {
    hash.update(`${JSON.stringify([path, entry])}\n`)
    if (entry.kind === "copy") fingerprint(entry.from, (line) => hash.update(line))
  }
  return hash.digest("hex").slice(0, 32)
}

const fingerprint = (path: string, tell: (line: string) => void) => {
  const seen: BigIntStats | undefined = lstatSync(path, { bigint: true, throwIfNoEntry: false })
  if (seen === undefined) return tell(`${path} is gone\n`)
  tell(`${path} ${seen.dev} ${seen.ino} ${seen.mode} ${seen.size} ${seen.ctimeNs}\n`)
  if (!seen.isDirectory()) return
  for (const child of readdirSync(path, { withFileTypes: true })) {
    if (!child.isSymbolicLink()) fingerprint(join(path, child.name), tell)
  }
}

const writeTree = async (
  entries: ReadonlyMap<string, Entry>,
  root: string,
  signal: AbortSignal,
): Promise<void> => {
  await makeDirectory(root, 0o755)
  const made = new Set(["/"])
  for (const [path, entry] of entries) {
    signal.throwIfAborted()
    for (const parent of parents(path)) {
      if (!made.has(parent)) await makeDirectory(join(root, parent), 0o755)
      made.add(parent)
    }
    if (entry.kind === "directory") made.add(path)
    await writeEntry(join(root, path), entry)
  }
}

/** The directories above a path, outermost first. */
const parents = (path: string): string[] =>
  path === "/" ? [] : [...parents(dirname(path)), dirname(path)]

const writeEntry = async (place: string, entry: Entry): Promise<void> => {
  switch (entry.kind) {
    case "directory":
      return makeDirectory(place, entry.mode)
    case "link":
      return symlink(entry.to, place)
    case "file":
      await writeFile(place, entry.content)
      return chmod(place, 0o644)
    case "copy":
      return copyReadable(entry.from, place)
  }
}

/** Copies files that everybody may read; links stay links. */
const copyReadable = async (from: string, to: string): Promise<void> => {
  const seen = await lstat(from)
  if (seen.isSymbolicLink()) return symlink(await readlink(from), to)
  if (seen.isFile() && (seen.mode & 0o004) !== 0) {
    await copyFile(from, to)
    return chmod(to, (seen.mode & 0o111) === 0 ? 0o644 : 0o755)
  }
  if (!seen.isDirectory() || (seen.mode & 0o005) !== 0o005) return
  await makeDirectory(to, 0o755)
  // One after another: the kernel lets one at a time into a directory, and others would spin until then.
  for (const name of await readdir(from)) await copyReadable(join(from, name), join(to, name))
}

/** Makes a directory with exactly this mode, whatever the server's umask is. */
const makeDirectory = async (path: string, mode: number): Promise<void> => {
  await mkdir(path, { recursive: true })
  await chmod(path, mode)
}

/**
 * Renames a directory, unless the target is there: a rename onto a non-empty directory fails, and then another caller
 * has made the same.
 */
const renameOnce = async (from: string, to: string): Promise<void> => {
  try {
    await rename(from, to)
  } catch (thrown) {
    if (!(await exists(to))) throw thrown
  }
}

const exists = async (path: string): Promise<boolean> => {
  try {
    return (await stat(path)).isDirectory()
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return false
    throw thrown
  }
}
