import { type BigIntStats, lstatSync, readlinkSync } from "node:fs"
import { below, descend, kindOf, type OpenDirectory, unlessGone } from "./descent.ts"
import { openLevels } from "./levels.ts"
import { multisetHash } from "./multiset-hash.ts"

/** A tree for a thread to walk. */
export interface WalkOrder {
  readonly tree: string
  /** The first id of the owners' range: owners are counted from it. */
  readonly idBase: number
  /** A name that does not exist, for a file that holds what does not fit into memory. */
  readonly spill: string
  /** Whether the thread reports directories one by one. */
  readonly tell: boolean
  /** The number of batches that may still be reported: the thread waits while it is 0. */
  readonly credit: SharedArrayBuffer
}

export interface ToldEntry {
  /** The path from the tree's root. */
  readonly path: Uint8Array
}

export interface WalkSums {
  readonly files: number
  readonly bytes: number
  /** Whether a directory was moved meanwhile, as a running sandbox does. The walk ended there. */
  readonly moved: boolean
  readonly digest: string
}

export type WalkMessage =
  | { readonly told: readonly ToldEntry[] }
  | { readonly seen: number }
  | { readonly sums: WalkSums }

/** Directories are reported so many at a time. */
export const BATCH_ENTRIES = 256
/** The thread reports its progress after this many entries. */
export const SEEN_EVERY = 10_000
const SECTOR_BYTES = 512

export const walk = (order: WalkOrder, post: (message: WalkMessage) => void): WalkSums => {
  const levels = openLevels()
  const digest = multisetHash()
  const tell = teller(order, post)
  let files = 0
  let bytes = 0

  const count = (stats: BigIntStats, kind: string): void => {
    // Several names of one file share its space, and all of them are in the tree, so each counts for its part.
    const names = kind === "d" ? 1 : Math.max(1, Number(stats.nlink))
    bytes += (Number(stats.blocks) * SECTOR_BYTES) / names
  }
  const enter = ({ depth, stats }: OpenDirectory): void => {
    if (depth > 0) return
    count(stats, "d")
    digest.add(line(NOTHING, NOTHING, "d", stats, NOTHING, order.idBase))
  }
  const entry = ({ descriptor, depth }: OpenDirectory, name: Buffer): boolean => {
    const path = below(descriptor, name)
    const stats = unlessGone(() => lstatSync(path, { bigint: true }))
    if (stats === undefined) return false
    const kind = kindOf(stats)
    const link = kind === "l" ? unlessGone(() => readlinkSync(path, "buffer")) : NOTHING
    if (link === undefined) return false
    files += 1
    count(stats, kind)
    digest.add(line(levels.hashAt(depth), name, kind, stats, link, order.idBase))
    if (order.tell && kind === "d") tell.entry(levels.pathOf(depth, name))
    if (files % SEEN_EVERY === 0) post({ seen: files })
    return kind === "d"
  }
  const moved = descend({ tree: order.tree, spill: order.spill, levels }, { enter, entry })
  tell.rest()
  return { files, bytes: Math.round(bytes), moved, digest: digest.digest() }
}

/** Collects entries into batches, and waits while too many of them have not been taken. */
const teller = ({ credit }: WalkOrder, post: (message: WalkMessage) => void) => {
  const batches = new Int32Array(credit)
  let batch: ToldEntry[] = []
  const rest = (): void => {
    if (batch.length === 0) return
    while (Atomics.load(batches, 0) <= 0) Atomics.wait(batches, 0, 0)
    Atomics.sub(batches, 0, 1)
    post({ told: batch })
    batch = []
  }
  const entry = (path: Buffer | undefined): void => {
    // An entry whose path is too long is left out: no program could use it.
    if (path === undefined) return
    batch.push({ path })
    if (batch.length === BATCH_ENTRIES) rest()
  }
  return { entry, rest }
}

/** The digest's line for an entry. A directory's size, unlike a file's, is an accident of the file system. */
const line = (
  directory: Buffer,
  name: Buffer,
  kind: string,
  { mode, uid, gid, size, mtimeNs }: BigIntStats,
  link: Buffer,
  idBase: number,
): Buffer => {
  const owner = `${Number(uid) - idBase} ${Number(gid) - idBase}`
  const fields = `${mode.toString(8)} ${owner} ${kind === "d" ? 0 : size} ${mtimeNs}`
  return Buffer.concat([directory, name, Buffer.from(`\0${fields}\0`), link])
}

const NOTHING = Buffer.alloc(0)
