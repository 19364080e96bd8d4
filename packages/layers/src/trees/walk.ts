import { randomUUID } from "node:crypto"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { Layout } from "../io/layout.ts"
import { inThread } from "./in-thread.ts"
import type { ToldEntry, WalkMessage, WalkSums } from "./tally.ts"
import type { Threads } from "./threads.ts"

/** Enough for millions of files on a slow and busy disk. */
const WALK_DEADLINE_MS = 10 * 60_000

/** The number of batches that the thread may be ahead of their reader. */
const BATCHES_AHEAD = 4

export interface Walk {
  /** Takes the directories in batches. The walk waits until they are taken. */
  readonly take?: (directories: readonly ToldEntry[]) => Promise<void>
  readonly signal?: AbortSignal | undefined
  readonly deadlineMs?: number
}

/** Walks trees, each in a thread. */
export type WalkTree = (tree: string, idBase: number, walk?: Walk) => Promise<WalkSums>

/**
 * Looks at everything in a tree, without following links, in a thread of its own: a sandbox decides how deep and wide a
 * tree is, and neither the memory nor the event loop of the server may depend on it. A thread that has walked one tree
 * is kept for the next for a while: a fork walks several small ones.
 */
export const openWalks =
  ({ incoming }: Pick<Layout, "incoming">, threads: Threads): WalkTree =>
  async (tree, idBase, { take: takeAll, signal, deadlineMs = WALK_DEADLINE_MS } = {}) => {
    const credit = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)
    Atomics.store(new Int32Array(credit), 0, BATCHES_AHEAD)
    let seen = 0
    let taking = Promise.resolve()
    const take = async (entries: readonly ToldEntry[]): Promise<void> => {
      await takeAll?.(entries)
      const batches = new Int32Array(credit)
      Atomics.add(batches, 0, 1)
      Atomics.notify(batches, 0)
    }
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(tooLong(tree, deadlineMs, seen)), deadlineMs)
    const spill = join(incoming, `walk-${randomUUID()}`)
    try {
      return await inThread<WalkMessage, WalkSums>(threads, {
        order: { tree, idBase, spill, tell: takeAll !== undefined, credit },
        hear: (message, { done, fail }) => {
          if ("seen" in message) seen = message.seen
          else if ("told" in message) taking = taking.then(() => take(message.told))
          else taking.then(() => done(message.sums), fail)
          taking.catch(fail)
        },
        signal: signal ? AbortSignal.any([signal, late.signal]) : late.signal,
      })
    } finally {
      clearTimeout(timer)
    }
  }

const tooLong = (tree: string, deadlineMs: number, seen: number): BerthError =>
  new BerthError(
    "deadline.exceeded",
    `the files of a workspace could not be looked at within ${deadlineMs / 1_000} s: ${seen} were seen until then; remove what it does not need (a build's output, copies of packages) and try again`,
    { details: { tree, deadlineMs, seen } },
  )
