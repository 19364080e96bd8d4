import { once } from "node:events"
import { type Program, startProgram } from "../io/programs.ts"
import { XATTR } from "../tar/pax.ts"
import { tarOutput } from "../tar/tar-output.ts"
import { multisetHash } from "./multiset-hash.ts"
import type { ToldEntry } from "./tally.ts"

/**
 * The attributes that an overlay, of either flavour, sets on directories to decide which files of lower layers show.
 */
const DECISIVE = /^(?:trusted|user)\.overlay\.(?:opaque|redirect)$/

/** Collects the overlay's marks on the directories of a tree, which are added one after another. */
export interface OverlayMarks {
  /** Resolves when there is room for more. */
  add(directories: readonly ToldEntry[]): Promise<void>
  /** The digest of all marks, after the last directory. */
  digest(): Promise<string>
  stop(): void
}

/**
 * Reads the marks with tar: Node cannot read extended attributes; tar can, and writes nothing of a directory but its
 * header. tar is started with the first directory.
 */
export const overlayMarks = (tree: string, signal?: AbortSignal): OverlayMarks => {
  const marks = multisetHash()
  let tar: Program | undefined
  let reading: Promise<void> | undefined
  const start = (): Program => {
    const command = ["tar", "-c", "--format=pax", "--xattrs", "--xattrs-include=*"] as const
    const program = startProgram([...command, "--no-recursion", "--null", "-T", "-", "-f", "-"], {
      signal,
      on: tree,
      cwd: tree,
    })
    reading = read(program, marks.add)
    // The next caller that waits for the reading gets its failure.
    reading.catch(() => {})
    return program
  }
  return {
    add: async (directories) => {
      tar ??= start()
      const names = directories.flatMap(({ path }) => [HERE, path, END])
      // A tar that has ended reads no more; the reader's failure says why it ended.
      if (!tar.stdin.write(Buffer.concat(names)))
        await Promise.race([once(tar.stdin, "drain"), reading])
    },
    digest: async () => {
      tar?.stdin.end()
      await reading
      return marks.digest()
    },
    stop: () => tar?.stop(),
  }
}

const read = async (program: Program, add: (line: Buffer) => void): Promise<void> => {
  for await (const { path, pax } of tarOutput(program)) {
    const marks = [...pax]
      .filter(([key]) => key.startsWith(XATTR) && DECISIVE.test(key.slice(XATTR.length)))
      .map(([key, value]) => `${key}=${value.toString("latin1")}`)
    if (marks.length > 0) add(Buffer.from([path, ...marks.sort()].join("\0"), "latin1"))
  }
}

const HERE = Buffer.from("./")
const END = Buffer.from("\0")
