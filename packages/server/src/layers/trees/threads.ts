import { Worker } from "node:worker_threads"

/** A thread keeps no entry of a tree: this is for Node itself. */
const MAX_HEAP_MB = 64

/** Longer than the steps of one operation are apart. */
const IDLE_MS = 5_000

export interface Threads {
  take(): Worker
  /** Takes back a thread that has done its work. A thread that has not is ended by its user. */
  giveBack(thread: Worker): void
}

/** Threads that walk trees. One that has nothing to do is kept for a while, and keeps no process from its end. */
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
      timer = setTimeout(() => void thread.terminate(), IDLE_MS).unref()
    },
  }
}

const start = (forget: (thread: Worker) => void): Worker => {
  const thread = new Worker(PROGRAM, {
    execArgv: [],
    env: {},
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
  })
  // A thread that fails while it is idle is missed by nobody.
  thread.on("error", () => forget(thread))
  thread.on("exit", () => forget(thread))
  return thread
}

/** Beside this file: a module as it is written, or as it is built. */
const PROGRAM = new URL(
  import.meta.url.endsWith(".ts") ? "./walker.ts" : "./walker.js",
  import.meta.url,
)
