import { createHash } from "node:crypto"
import type { BigIntStats } from "node:fs"

/** A file's name and attributes, without its contents. */
export interface Seen {
  readonly name: string
  readonly stats: BigIntStats
}

/**
 * Tells whether files are untouched, without reading them. Nobody can set the time of the last change of an inode: a
 * file that is written, renamed or given another mode gets another fingerprint. A file that was only moved or restored
 * from a copy does so too; then the contents decide.
 */
export const fingerprint = (files: Iterable<Seen>): string => {
  const hash = createHash("sha256")
  for (const { name, stats } of files) {
    const { dev, ino, mode, uid, size, mtimeNs, ctimeNs } = stats
    hash.update(
      JSON.stringify([name, ...[dev, ino, mode, uid, size, mtimeNs, ctimeNs].map(String)]),
    )
  }
  return hash.digest("hex")
}
