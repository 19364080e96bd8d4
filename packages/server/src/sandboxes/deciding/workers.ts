import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { Action } from "./decide.ts"
import type { Before, Looked } from "./look.ts"

/** The outcome of the last look: there is nothing more to do for the moment, or it failed. */
export interface Settled extends Looked {
  /** The outcome of the first look after the call. */
  readonly first: Looked
}

export interface WorkersParts {
  /** Reads everything that may have changed since the look before, decides, and executes one action. */
  readonly look: (sandbox: SandboxId, before: Before | undefined) => Promise<Looked>
  readonly onFailure: (sandbox: SandboxId, failure: unknown, againInMs: number) => void
}

/**
 * One worker for each sandbox. A wake-up carries only the id. A worker does one thing at a time; sandboxes do not wait
 * for each other.
 */
export interface Workers {
  wake(sandbox: SandboxId): void
  /** Looks after so long, unless it does before. */
  wakeIn(sandbox: SandboxId, ms: number): void
  /** Looks now, and resolves when there is nothing more to do for the moment, or that failed. */
  settle(sandbox: SandboxId): Promise<Settled>
  /** Begins no more looks, and waits for those that run. */
  close(): Promise<void>
}

export const FIRST_BACKOFF_MS = 1_000
export const MAX_BACKOFF_MS = 60_000

/** Node fires a timer that is to run for longer at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

/** No sandbox needs as many looks in a row. One that takes more never settles, and waits as after a failure. */
const MAX_LOOKS = 50

/** The actions after which nothing is left to do. */
const LAST_ACTIONS: ReadonlySet<Action["kind"]> = new Set(["keep", "forget"])

interface Worker {
  running: Promise<Looked> | undefined
  /** The callers that came since the last look began, and wait for the next. */
  comers: { first?: Looked }[]
  /** A wake-up came during the look: what it saw may be outdated. */
  isStale: boolean
  failures: number
  next: { readonly timer: NodeJS.Timeout; readonly atMs: number } | undefined
}

export const openWorkers = ({ look, onFailure }: WorkersParts): Workers => {
  const workers = new Map<SandboxId, Worker>()
  let isClosed = false

  const run = async (sandbox: SandboxId, worker: Worker): Promise<Looked> => {
    let before: Before | undefined
    for (let looks = 1; ; looks += 1) {
      worker.isStale = false
      const comers = worker.comers.splice(0)
      const now = await look(sandbox, before).catch(notRead)
      const looked = looks < MAX_LOOKS ? now : restless(now)
      for (const comer of comers) comer.first = looked
      before = { looked, isStale: worker.isStale }
      // From here to the end nothing is awaited, so that no wake-up is missed.
      const isDone = "failure" in looked || LAST_ACTIONS.has(looked.decision.action.kind)
      if (!isClosed && looks < MAX_LOOKS && (worker.isStale || !isDone)) continue
      worker.running = undefined
      plan(sandbox, worker, looked)
      return looked
    }
  }

  const plan = (sandbox: SandboxId, worker: Worker, looked: Looked): void => {
    if (!("failure" in looked)) {
      worker.failures = 0
      const { againInMs } = looked.decision
      if (againInMs === undefined) workers.delete(sandbox)
      else lookIn(sandbox, worker, againInMs)
      return
    }
    const againInMs = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** worker.failures)
    worker.failures += 1
    onFailure(sandbox, looked.failure, againInMs)
    lookIn(sandbox, worker, againInMs)
  }

  const lookIn = (sandbox: SandboxId, worker: Worker, inMs: number): void => {
    if (isClosed) return
    clearTimeout(worker.next?.timer)
    const timer = setTimeout(() => void start(sandbox), Math.min(inMs, LONGEST_TIMER_MS)).unref()
    worker.next = { timer, atMs: performance.now() + inMs }
  }

  const workerOf = (sandbox: SandboxId): Worker => {
    const worker = workers.get(sandbox) ?? {
      running: undefined,
      comers: [],
      isStale: false,
      failures: 0,
      next: undefined,
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
    clearTimeout(worker.next?.timer)
    worker.next = undefined
    worker.running = run(sandbox, worker)
    return worker.running
  }

  return {
    wake: (sandbox) => {
      if (!isClosed) void start(sandbox)
    },
    wakeIn: (sandbox, ms) => {
      const worker = workerOf(sandbox)
      // The running look, and its time for the next one, may be from before this call.
      if (worker.running !== undefined) worker.isStale = true
      else if (worker.next === undefined || worker.next.atMs > performance.now() + ms)
        lookIn(sandbox, worker, ms)
    },
    settle: async (sandbox) => {
      if (isClosed) return { ...closed(), first: closed() }
      const comer: Worker["comers"][number] = {}
      workerOf(sandbox).comers.push(comer)
      const last = await start(sandbox)
      return { ...last, first: comer.first ?? last }
    },
    close: async () => {
      isClosed = true
      for (const { next } of workers.values()) clearTimeout(next?.timer)
      await Promise.all([...workers.values()].flatMap(({ running }) => running ?? []))
    },
  }
}

const restless = (looked: Looked): Looked => ({
  failure: new BerthError("internal", "there is always something more to do about the sandbox"),
  ...looked,
})

const closed = (): Looked =>
  notRead(new BerthError("server.stopping", "the server is stopping: nothing is begun any more"))

const notRead = (failure: unknown): Looked => ({
  decision: { action: { kind: "keep" }, reason: "what there is to know of it cannot be read" },
  failure,
})
