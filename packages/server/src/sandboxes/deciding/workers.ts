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
  /** Begins no more looks, and waits for the running ones. */
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

/** The state that the workers of one server have in common. */
interface Shared extends WorkersParts {
  /** No more looks are begun. */
  isClosed: boolean
  /** Called when a worker has nothing to do and nothing to wait for. */
  readonly onRest: (sandbox: SandboxId) => void
}

/** The worker of one sandbox. */
class Worker {
  readonly #sandbox: SandboxId
  readonly #shared: Shared
  #running: Promise<Looked> | undefined
  /** The callers that came since the last look began, and wait for the next. */
  #comers: { first?: Looked }[] = []
  /** A wake-up came during the look, so its findings may be outdated. */
  #isStale = false
  #failures = 0
  #next: { readonly timer: NodeJS.Timeout; readonly atMs: number } | undefined

  constructor(sandbox: SandboxId, shared: Shared) {
    this.#sandbox = sandbox
    this.#shared = shared
  }

  /** The looks that run; undefined: none. */
  get running(): Promise<Looked> | undefined {
    return this.#running
  }

  /** Begins to look, or has the running look repeated. Resolves with the outcome of the last look. */
  start(): Promise<Looked> {
    if (this.#running !== undefined) {
      this.#isStale = true
      return this.#running
    }
    this.cancelNext()
    this.#running = this.#run()
    return this.#running
  }

  async settle(): Promise<Settled> {
    const comer: { first?: Looked } = {}
    this.#comers.push(comer)
    const last = await this.start()
    return { ...last, first: comer.first ?? last }
  }

  wakeIn(ms: number): void {
    // The running look, and its time for the next one, may be from before this call.
    if (this.#running !== undefined) this.#isStale = true
    else if (this.#next === undefined || this.#next.atMs > performance.now() + ms) this.#lookIn(ms)
  }

  cancelNext(): void {
    clearTimeout(this.#next?.timer)
    this.#next = undefined
  }

  async #run(): Promise<Looked> {
    let before: Before | undefined
    for (let looks = 1; ; looks += 1) {
      this.#isStale = false
      const comers = this.#comers.splice(0)
      const now = await this.#shared.look(this.#sandbox, before).catch(notRead)
      const looked = looks < MAX_LOOKS ? now : restless(now)
      for (const comer of comers) comer.first = looked
      before = { looked, isStale: this.#isStale }
      // From here to the end nothing is awaited, so that no wake-up is missed.
      const isDone = "failure" in looked || LAST_ACTIONS.has(looked.decision.action.kind)
      if (!this.#shared.isClosed && looks < MAX_LOOKS && (this.#isStale || !isDone)) continue
      this.#running = undefined
      this.#plan(looked)
      return looked
    }
  }

  /** Plans the next look after the last one for the moment. */
  #plan(looked: Looked): void {
    if (!("failure" in looked)) {
      this.#failures = 0
      const { againInMs } = looked.decision
      if (againInMs === undefined) this.#shared.onRest(this.#sandbox)
      else this.#lookIn(againInMs)
      return
    }
    const againInMs = Math.min(MAX_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** this.#failures)
    this.#failures += 1
    this.#shared.onFailure(this.#sandbox, looked.failure, againInMs)
    this.#lookIn(againInMs)
  }

  #lookIn(inMs: number): void {
    if (this.#shared.isClosed) return
    this.cancelNext()
    const timer = setTimeout(() => void this.start(), Math.min(inMs, LONGEST_TIMER_MS)).unref()
    this.#next = { timer, atMs: performance.now() + inMs }
  }
}

export const openWorkers = (parts: WorkersParts): Workers => {
  const all = new Map<SandboxId, Worker>()
  const shared: Shared = { ...parts, isClosed: false, onRest: (sandbox) => all.delete(sandbox) }

  const workerOf = (sandbox: SandboxId): Worker => {
    const worker = all.get(sandbox) ?? new Worker(sandbox, shared)
    all.set(sandbox, worker)
    return worker
  }

  return {
    wake: (sandbox) => {
      if (!shared.isClosed) void workerOf(sandbox).start()
    },
    wakeIn: (sandbox, ms) => workerOf(sandbox).wakeIn(ms),
    settle: async (sandbox) => {
      if (shared.isClosed) return { ...closed(), first: closed() }
      return await workerOf(sandbox).settle()
    },
    close: async () => {
      shared.isClosed = true
      for (const worker of all.values()) worker.cancelNext()
      await Promise.all([...all.values()].flatMap(({ running }) => running ?? []))
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
  decision: { action: { kind: "keep" }, reason: "its state cannot be read" },
  failure,
})
