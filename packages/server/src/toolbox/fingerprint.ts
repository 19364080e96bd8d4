import { createHash } from "node:crypto"
import type { BigIntStats } from "node:fs"

/** A file of which only is known how it looks from outside. */
export interface Seen {
  readonly name: string
  readonly stats: BigIntStats
}

/**
 * Tells whether files are untouched, without reading them. The time of the last change of an inode
 * cannot be set by anyone: whatever is written, renamed or given another mode gets another fingerprint.
 * What was only moved or restored from a copy does so too; then the contents decide.
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
