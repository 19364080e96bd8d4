import { Worker } from "node:worker_threads"

/** A thread keeps no entry of a tree: this memory is for Node itself. */
const MAX_HEAP_MB = 64

/** How long an idle thread is kept: longer than the steps of one operation are apart. */
const IDLE_MS = 5_000

export interface Threads {
  take(): Worker
  /** Takes back a thread that has finished its work. The caller ends a thread that has not. */
  giveBack(thread: Worker): void
}

/** Threads that walk trees. An idle thread is kept for a while, and does not keep the process alive. */
export const openThreads = (): Threads => {
  let idle: Worker | undefined
  let timer: NodeJS.Timeout | undefined
  const forget = (thread: Worker): void => {
    if (idle === thread) idle = undefined
  }
  return {
    take: () => {
      clearTimeout(timer)
      const thread = idle ?? start(forget)
      idle = undefined
      thread.ref()
      return thread
    },
    giveBack: (thread) => {
      thread.unref()
      void idle?.terminate()
      clearTimeout(timer)
      idle = thread
      timer = setTimeout(() => {
        // A thread that is about to end must not be taken.
        forget(thread)
        void thread.terminate()
      }, IDLE_MS).unref()
    },
  }
}

const start = (forget: (thread: Worker) => void): Worker => {
  const thread = new Worker(PROGRAM, {
    execArgv: [],
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
  })
  // A thread that fails while it is idle is dropped.
  thread.on("error", () => forget(thread))
  thread.on("exit", () => forget(thread))
  return thread
}

/** The thread's program beside this file, as source or as built. */
const PROGRAM = new URL(
  import.meta.url.endsWith(".ts") ? "./walker.ts" : "./walker.js",
  import.meta.url,
)
