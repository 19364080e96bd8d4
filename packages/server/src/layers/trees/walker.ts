import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  opendirSync,
  openSync,
  readlinkSync,
} from "node:fs"
import { parentPort } from "node:worker_threads"
import { openLevels } from "./levels.ts"
import { multisetHash } from "./multiset-hash.ts"
import { openPending } from "./pending.ts"

/** The thread that walks a tree. It has no more than two directories open, and never uses a path of more than one name. */
export interface WalkOrder {
  readonly tree: string
  /** Owners count from here. */
  readonly idBase: number
  /** A name that does not exist, for what does not fit into memory. */
  readonly spill: string
  /** Entries of this kind are told one by one. */
  readonly tell: "d" | "s" | undefined
  /** How many batches may still be told: the thread waits while it is 0. */
  readonly credit: SharedArrayBuffer
}

export interface ToldEntry {
  /** From the tree's root. */
  readonly path: Uint8Array
  readonly mode: number
  readonly uid: number
  readonly gid: number
  readonly changedNs: bigint
}

export interface WalkSums {
  readonly files: number
  readonly bytes: number
  /** Whether a directory was moved meanwhile, as a running sandbox does: the walk ended there. */
  readonly moved: boolean
  readonly digest: string
}

export type WalkMessage =
  | { readonly told: readonly ToldEntry[] }
  | { readonly seen: number }
  | { readonly sums: WalkSums }

const BATCH_ENTRIES = 256
/** How often the thread tells how far it is. */
const SEEN_EVERY = 10_000
const SECTOR_BYTES = 512
const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

const walk = (order: WalkOrder, post: (message: WalkMessage) => void): WalkSums => {
  const pending = openPending(order.spill)
  const levels = openLevels()
  const digest = multisetHash()
  const tell = teller(order, post)
  let files = 0
  let bytes = 0
  let moved = false

  const count = (stats: BigIntStats, kind: string): void => {
    // Several names of one file share its space, and all of them are in the tree.
    const names = kind === "d" ? 1 : Math.max(1, Number(stats.nlink))
    bytes += (Number(stats.blocks) * SECTOR_BYTES) / names
  }
  const visit = (directory: number, depth: number, name: Buffer): void => {
    const path = below(directory, name)
    const stats = unlessGone(() => lstatSync(path, { bigint: true }))
    if (stats === undefined) return
    const kind = kindOf(stats)
    const link = kind === "l" ? unlessGone(() => readlinkSync(path, "buffer")) : NOTHING
    if (link === undefined) return
    files += 1
    count(stats, kind)
    digest.add(line(levels.hashAt(depth), name, kind, stats, link, order.idBase))
    if (kind === order.tell) tell.entry(levels.pathOf(depth, name), stats)
    if (kind === "d") pending.push(depth + 1, name)
    if (files % SEEN_EVERY === 0) post({ seen: files })
  }
  const visitAll = (directory: number, depth: number): void => {
    const names = unlessGone(() =>
      opendirSync(`/proc/self/fd/${directory}`, { encoding: "buffer" as never, bufferSize: 256 }),
    )
    if (names === undefined) return
    try {
      for (let entry = names.readSync(); entry !== null; entry = names.readSync())
        visit(directory, depth, entry.name as unknown as Buffer)
    } finally {
      names.closeSync()
    }
  }

  let current = openSync(order.tree, DIRECTORY)
  let depth = 0
  try {
    const root = fstatSync(current, { bigint: true })
    count(root, "d")
    digest.add(line(NOTHING, NOTHING, "d", root, NOTHING, order.idBase))
    levels.enter(0, NOTHING, root.ino)
    visitAll(current, 0)
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      for (; depth >= next.depth && !moved; depth -= 1) {
        const above = openSync(below(current, PARENT), DIRECTORY)
        closeSync(current)
        current = above
        // Above the directory may be another one by now, even one outside of the tree.
        moved = fstatSync(current, { bigint: true }).ino !== levels.inodeAt(depth - 1)
      }
      if (moved) break
      const entered = unlessGone(() => openSync(below(current, next.name), DIRECTORY))
      if (entered === undefined) continue
      closeSync(current)
      current = entered
      depth = next.depth
      levels.enter(depth, next.name, fstatSync(current, { bigint: true }).ino)
      visitAll(current, depth)
    }
  } finally {
    closeSync(current)
    pending.close()
  }
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
  const entry = (path: Buffer | undefined, stats: BigIntStats): void => {
    // No program could do anything with an entry whose path is too long.
    if (path === undefined) return
    batch.push({
      path,
      mode: Number(stats.mode),
      uid: Number(stats.uid),
      gid: Number(stats.gid),
      changedNs: stats.mtimeNs,
    })
    if (batch.length === BATCH_ENTRIES) rest()
  }
  return { entry, rest }
}

/** A directory's size, unlike a file's, is an accident of the file system. */
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
const PARENT = Buffer.from("..")

/** A name in an open directory: however deep that is, the path that the kernel gets is short. */
const below = (directory: number, name: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`/proc/self/fd/${directory}/`), name])

const kindOf = (stats: BigIntStats): string =>
  stats.isDirectory() ? "d" : stats.isSymbolicLink() ? "l" : stats.isSocket() ? "s" : "f"

/** A running sandbox removes and replaces files while they are looked at. */
const GONE = new Set(["ENOENT", "ENOTDIR", "ELOOP", "EINVAL"])

const unlessGone = <Result>(look: () => Result): Result | undefined => {
  try {
    return look()
  } catch (thrown) {
    if (GONE.has(String((thrown as NodeJS.ErrnoException).code))) return undefined
    throw thrown
  }
}

// Also loaded where it is no thread, to be compiled ahead of time.
if (parentPort !== null) {
  const port = parentPort
  port.on("message", (order: WalkOrder) => {
    const sums = walk(order, (message) => port.postMessage(message))
    port.postMessage({ sums } satisfies WalkMessage)
  })
}
