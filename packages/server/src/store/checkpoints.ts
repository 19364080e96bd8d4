import { Worker } from "node:worker_threads"
import type Database from "better-sqlite3"

/** The pages in the write-ahead log after which they are moved into the database: 16 MiB. */
const LOG_PAGES = 4096

/** From this size on SQLite moves them itself, in the middle of a commit, because the thread does not keep up. */
const MAX_LOG_PAGES = 4 * LOG_PAGES

/** The size that the log keeps on the disk when it has been emptied. */
const KEPT_LOG_BYTES = 16 * 1024 * 1024

/** How often the log is checked while there are commits. */
const LOOK_EVERY_MS = 50

/** A thread that has been idle for this long is ended. */
const IDLE_MS = 10_000

/** The thread keeps no data: this is for Node itself. */
const MAX_HEAP_MB = 32

export interface Checkpoints {
  /** Called after a commit. */
  committed(): void
  close(): Promise<void>
}

/**
 * Moves commits into the database in a thread: a checkpoint waits for the disk several times, and the server would
 * answer nobody meanwhile.
 */
export const openCheckpoints = (database: Database.Database): Checkpoints => {
  database.pragma(`wal_autocheckpoint = ${MAX_LOG_PAGES}`)
  database.pragma(`journal_size_limit = ${KEPT_LOG_BYTES}`)
  const look = database.prepare("PRAGMA wal_checkpoint(NOOP)")
  let thread: Worker | undefined
  let isBusy = false
  let isClosed = false
  let lookedAtMs = 0
  let idle: NodeJS.Timeout | undefined

  const end = async (): Promise<void> => {
    const ending = thread
    thread = undefined
    clearTimeout(idle)
    await ending?.terminate()
  }
  const begin = (): Worker => {
    const begun = new Worker(PROGRAM, {
      workerData: database.name,
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
    })
    begun.unref()
    begun.on("message", () => {
      isBusy = false
      idle = setTimeout(() => void end(), IDLE_MS).unref()
    })
    // The next commits start another thread; until then, and without any, the log grows to its bound.
    begun.on("error", () => {})
    begun.on("exit", () => {
      isBusy = false
      if (thread === begun) thread = undefined
    })
    return begun
  }

  const isLong = (): boolean => {
    try {
      return (look.get() as { readonly log: number }).log >= LOG_PAGES
    } catch {
      // The commit was made; the log is checked again after the next one.
      return false
    }
  }

  return {
    committed: () => {
      const nowMs = performance.now()
      if (isBusy || isClosed || nowMs - lookedAtMs < LOOK_EVERY_MS) return
      lookedAtMs = nowMs
      if (!isLong()) return
      isBusy = true
      clearTimeout(idle)
      thread ??= begin()
      thread.postMessage("checkpoint")
    },
    // The thread's connection is closed before the last one, which empties the log.
    close: async () => {
      isClosed = true
      await end()
    },
  }
}

/** The thread's program beside this file, as source or as built. */
const PROGRAM = new URL(
  import.meta.url.endsWith(".ts") ? "./checkpointer.ts" : "./checkpointer.js",
  import.meta.url,
)
