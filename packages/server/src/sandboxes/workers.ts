import type { SandboxId } from "@berth/protocol/ids"
import type { Decision } from "./decide.ts"

/** What came of looking at a sandbox. */
export interface Looked {
  readonly decision: Decision
  /** Present if doing it failed. */
  readonly failure?: unknown
}

export interface WorkersParts {
  /** Reads everything anew, decides, and does one thing. */
  readonly look: (sandbox: SandboxId) => Promise<Looked>
  readonly onFailure: (sandbox: SandboxId, failure: unknown, againInMs: number) => void
}

/**
 * One worker for each sandbox: it is told whom to look at and nothing else. For one sandbox, one thing at a time;
 * sandboxes do not wait for each other.
 */
export interface Workers {
  wake(sandbox: SandboxId): void
  /** Looks after so long, unless it is woken before. */
  wakeIn(sandbox: SandboxId, ms: number): void
  /** Looks now, and resolves when there is nothing more to do for the moment, or that failed. */
  settle(sandbox: SandboxId): Promise<Looked>
  /** Begins no more, and waits for what runs. */
  close(): Promise<void>
}

const FIRST_BACKOFF_MS = 1_000
const MAX_BACKOFF_MS = 60_000

interface Worker {
  running: Promise<Looked> | undefined
  /** Somebody came while it looked: what it saw may be over. */
  isStale: boolean
  failures: number
  timer: NodeJS.Timeout | undefined
}

export const openWorkers = ({ look, onFailure }: WorkersParts): Workers => {
  const workers = new Map<SandboxId, Worker>()
  let isClosed = false

  const lookUntilDone = async (sandbox: SandboxId, worker: Worker): Promise<Looked> => {
    for (;;) {
      worker.isStale = false
      const looked = await look(sandbox)
      if ("failure" in looked || isClosed) return looked
      worker.failures = 0
      if (looked.decision.action.kind === "keep" && !worker.isStale) return looked
    }
  }

  const run = async (sandbox: SandboxId, worker: Worker): Promise<Looked> => {
    const looked = await lookUntilDone(sandbox, worker).catch(notRead)
    if ("failure" in looked) {
      const againInMs = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** worker.failures)
      worker.failures += 1
      onFailure(sandbox, looked.failure, againInMs)
      lookAgain(sandbox, worker, againInMs)
    } else lookAgain(sandbox, worker, looked.decision.againInMs)
    worker.running = undefined
    return looked
  }

  const lookAgain = (sandbox: SandboxId, worker: Worker, inMs: number | undefined) => {
    clearTimeout(worker.timer)
    if (isClosed) return
    if (inMs === undefined) workers.delete(sandbox)
    else worker.timer = setTimeout(() => start(sandbox), inMs).unref()
  }

  const workerOf = (sandbox: SandboxId): Worker => {
    const worker = workers.get(sandbox) ?? {
      ...{ running: undefined, isStale: false, failures: 0, timer: undefined },
    }
    workers.set(sandbox, worker)
    return worker
  }

  const start = (sandbox: SandboxId): Promise<Looked> => {
    const worker = workerOf(sandbox)
    if (worker.running !== undefined) {
      worker.isStale = true
      return worker.running
    }
    clearTimeout(worker.timer)
    worker.running = run(sandbox, worker)
    return worker.running
  }

  return {
    wake: (sandbox) => {
      if (!isClosed) void start(sandbox)
    },
    wakeIn: (sandbox, ms) => {
      const worker = workerOf(sandbox)
      // A look that runs says itself when the next one is.
      if (worker.running === undefined) lookAgain(sandbox, worker, ms)
    },
    settle: start,
    close: async () => {
      isClosed = true
      for (const { timer } of workers.values()) clearTimeout(timer)
      await Promise.all([...workers.values()].map(({ running }) => running))
    },
  }
}

const notRead = (failure: unknown): Looked => ({
  decision: { action: { kind: "keep" }, reason: "what there is to know of it cannot be read" },
  failure,
})
