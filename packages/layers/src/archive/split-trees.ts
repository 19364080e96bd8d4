import { refuse } from "../tar/refuse.ts"
import { isSparse, sparsePath } from "../tar/sparse.ts"
import type { TarEntry } from "../tar/tar-read.ts"

/** The trees of an archive, which come one after another. */
export interface SplitTrees {
  /** The entries of the next tree, which are those below its name. Each tree is read to its end before the next. */
  of(name: string): AsyncGenerator<TarEntry>
  /** Refuses an archive that has more entries than were read. */
  assertEnded(): void
}

export const splitTrees = (entries: AsyncIterator<TarEntry>): SplitTrees => {
  /** The first entry that belongs to none of the trees read so far. */
  let pending: TarEntry | undefined
  const next = async (): Promise<TarEntry | undefined> => {
    const { done, value } = await entries.next()
    return done ? undefined : value
  }
  return {
    of: async function* (name) {
      let entry = pending ?? (await next())
      pending = undefined
      while (entry !== undefined && rootOf(entry) === name) {
        yield entry
        entry = await next()
      }
      pending = entry
    },
    assertEnded: () => {
      if (pending !== undefined) refuse("a name leads out of its trees", pending.path)
    },
  }
}

const rootOf = (entry: TarEntry): string =>
  (isSparse(entry) ? sparsePath(entry) : entry.path).split("/", 1)[0] ?? ""
