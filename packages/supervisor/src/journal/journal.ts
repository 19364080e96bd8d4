import { MAX_EVENT_BYTES } from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"
import type { EventBody } from "@berth/protocol/event"
import { encodeRecord } from "@berth/protocol/journal-record"
import { abortable } from "../processes/abortable.ts"
import { toJournalError } from "./fault.ts"
import { thisMachine } from "./power-loss.ts"
import { JournalReader } from "./reader.ts"
import type { Segment } from "./segment.ts"
import { Segments } from "./segments.ts"

/** Limit of all events that the server has not acknowledged: hours of an agent's work while the server is away. */
export const MAX_JOURNAL_BYTES = 64 * 1024 * 1024

/** Events within this time of each other are written together. A single one does not wait. */
export const GROUP_WINDOW_MS = 3

/** Limit of one write, unless one event is larger. */
const MAX_GROUP_BYTES = 1024 * 1024

/** A full journal has about this many segments. Acknowledged events are freed a segment at a time. */
const SEGMENTS = 8

export interface JournalOptions {
  /** Directory of this journal alone, on a disk and outside of the layers: a fork would send the events again. */
  readonly directory: string
  readonly maxBytes?: number
  /** Identifies this start of the machine. After another start, unsynced events may be lost. */
  readonly machine?: string
}

export interface AppendOptions {
  /** Whether the event must survive a power loss, too. */
  readonly durable?: boolean
  /** Keeps the event until it is released, even if it is acknowledged. */
  readonly held?: boolean
  /** Takes the event back while it waits for room. */
  readonly signal?: AbortSignal
}

export interface Appended {
  /** The event's number. It is provisional until the first `agree` after a power loss. */
  readonly sequence: number
  /** Lets a held event be removed once it is acknowledged. */
  readonly release: () => void
}

interface Entry {
  readonly record: Buffer
  readonly durable: boolean
  readonly held: boolean
  readonly resolve: (appended: Appended) => void
  readonly reject: (reason: unknown) => void
}

export const openJournal = async ({
  directory,
  maxBytes = MAX_JOURNAL_BYTES,
  machine,
}: JournalOptions): Promise<Journal> =>
  new Journal(await Segments.open(directory, machine ?? (await thisMachine())), maxBytes)

/**
 * The events of a sandbox that the server has not stored yet. Each gets the next number and is on disk before anyone
 * can read it. It is removed when it is acknowledged, and never before: when the journal is full, `append` waits. A
 * failed `append` has written nothing, and fails those that waited behind it.
 */
export class Journal {
  readonly #segments: Segments
  readonly #maxBytes: number
  readonly #segmentBytes: number
  readonly #maxEventBytes: number
  #queue: Entry[] = []
  #acknowledged = 0
  #acknowledgedMore = Promise.withResolvers<void>()
  readonly #holds = new Set<{ readonly from: number }>()
  #work: Promise<unknown> = Promise.resolve()
  #flushDue: NodeJS.Timeout | undefined
  #lastFlushMs = Number.NEGATIVE_INFINITY
  #grown = Promise.withResolvers<void>()
  #failed: BerthError | undefined
  #closed: Promise<void> | undefined

  constructor(segments: Segments, maxBytes: number) {
    this.#segments = segments
    this.#maxBytes = maxBytes
    this.#segmentBytes = Math.floor(maxBytes / SEGMENTS)
    // A segment exceeds its size by at most a group and an event: this much always fits beside it.
    this.#maxEventBytes = Math.min(MAX_EVENT_BYTES, Math.floor(maxBytes / 4))
  }

  /** The first number that is held; `last` + 1 if there is none. */
  get first(): number {
    return this.#segments.first
  }

  get last(): number {
    return this.#segments.last
  }

  /** The size on disk, acknowledged events included. */
  get bytes(): number {
    return this.#segments.bytes
  }

  /** Whether events wait for room, which holds up their writers. */
  get isFull(): boolean {
    return this.#queue.length > 0 && !this.#hasRoom()
  }

  /** The size of an unfinished write that was cut off the end when the journal was opened. */
  get cutBytes(): number {
    return this.#segments.cutBytes
  }

  /** Resolves when the event is on disk. Events are ordered as the calls are. */
  async append(
    body: EventBody,
    { durable = false, held = false, signal }: AppendOptions = {},
  ): Promise<Appended> {
    const payload = Buffer.from(JSON.stringify({ at: new Date().toISOString(), body }))
    this.#refuse(payload)
    signal?.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<Appended>()
    const entry = { record: encodeRecord(payload), durable, held, resolve, reject }
    const onAbort = () => this.#takeBack(entry, signal?.reason)
    signal?.addEventListener("abort", onAbort)
    this.#queue.push(entry)
    this.#schedule()
    try {
      return await promise
    } finally {
      signal?.removeEventListener("abort", onAbort)
    }
  }

  /** Called when the server has stored the events up to this one. */
  acknowledge(upTo: number): Promise<void> {
    this.#acknowledged = Math.max(this.#acknowledged, Math.min(upTo, this.last))
    this.#acknowledgedMore.resolve()
    this.#acknowledgedMore = Promise.withResolvers()
    return this.#forget()
  }

  /** Resolves when the server has stored everything that is on disk. Rejects with the signal's reason. */
  async allAcknowledged(signal: AbortSignal): Promise<void> {
    while (this.#acknowledged < this.last) await abortable(this.#acknowledgedMore.promise, signal)
  }

  /** Keeps the events from this one on, even if they are acknowledged, until the returned function is called. */
  hold(from: number): () => void {
    const hold = { from }
    this.#holds.add(hold)
    return () => {
      if (!this.#holds.delete(hold)) return
      // A segment that cannot be removed now is tried again with the next acknowledgement.
      this.#forget().catch(() => {})
    }
  }

  /**
   * Settles with the server from which number to send, given the last one that it saw. Resolves with the number after
   * which sending starts. That is a later one if the next events are not held any more, since the server has lost what
   * it had stored. Throws if the server has seen events that were never recorded.
   */
  agree(lastSeen: number): Promise<number> {
    return this.#inTurn(async () => {
      await this.#segments.settle(lastSeen)
      const { first, last } = this
      if (lastSeen <= last) return Math.max(lastSeen, first - 1)
      throw new BerthError("journal.not_held", `the event after ${lastSeen} is not held`, {
        details: { lastSeen, first, last },
      })
    })
  }

  /** Reads the events after that number, then those that are appended. */
  readAfter(sequence: number): JournalReader {
    return new JournalReader(this, sequence)
  }

  locate(sequence: number): Segment | undefined {
    return this.#segments.locate(sequence)
  }

  async grownBeyond(sequence: number, signal: AbortSignal): Promise<void> {
    while (this.last <= sequence) await abortable(this.#grown.promise, signal)
  }

  /** Writes the events that there is room for, and rejects the others. A second call waits for the same end. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    clearTimeout(this.#flushDue)
    for (let before = -1; this.#queue.length > 0 && this.last > before; ) {
      before = this.last
      await this.#inTurn(() => this.#flush())
    }
    rejectAll(this.#queue.splice(0), closedError())
    this.#grown.promise.catch(() => {})
    this.#grown.reject(closedError())
    await this.#inTurn(() => this.#segments.close())
  }

  #refuse(payload: Buffer): void {
    if (this.#closed !== undefined) throw closedError()
    if (this.#failed !== undefined) throw this.#failed
    if (payload.length <= this.#maxEventBytes) return
    throw new BerthError("journal.event_too_large", "the event is too large to be recorded", {
      details: { bytes: payload.length, maxBytes: this.#maxEventBytes },
    })
  }

  #takeBack(entry: Entry, reason: unknown): void {
    const place = this.#queue.indexOf(entry)
    // An event that is being written stays.
    if (place === -1) return
    this.#queue.splice(place, 1)
    entry.reject(reason)
    this.#schedule()
  }

  /** Schedules a flush, unless one is due: a group window after the last one. */
  #schedule(): void {
    if (this.#flushDue !== undefined || this.#closed !== undefined || !this.#hasRoom()) return
    const waitMs = Math.max(0, this.#lastFlushMs + GROUP_WINDOW_MS - performance.now())
    this.#flushDue = setTimeout(() => {
      // The flush reports to the waiting callers of `append`, and never rejects.
      void this.#inTurn(() => this.#flush())
    }, waitMs)
  }

  /** Writes the next group. Without room nothing happens: the next acknowledgement tries again. */
  async #flush(): Promise<void> {
    this.#lastFlushMs = performance.now()
    const group = this.#takeGroup()
    if (group.length > 0) await this.#write(group)
    this.#flushDue = undefined
    this.#schedule()
  }

  async #write(group: Entry[]): Promise<void> {
    const holds: (() => void)[] = []
    try {
      await this.#segments.rotate(this.#segmentBytes)
      const first = this.last + 1
      for (const [place, { held }] of group.entries())
        holds.push(held ? this.hold(first + place) : () => {})
      await this.#segments.append(
        group.map(({ record }) => record),
        { durable: group.some(({ durable }) => durable) },
      )
      for (const [place, release] of holds.entries())
        group[place]?.resolve({ sequence: first + place, release })
      this.#grown.resolve()
      this.#grown = Promise.withResolvers()
    } catch (thrown) {
      for (const release of holds) release()
      const error = toJournalError(thrown, "the journal")
      // After an I/O error nobody knows what is on the disk. Only opening the journal anew finds out.
      if (error.code === "journal.io") this.#failed = error
      rejectAll([...group, ...this.#queue.splice(0)], error)
    }
  }

  #takeGroup(): Entry[] {
    let bytes = this.bytes
    const groupBytes = Math.min(MAX_GROUP_BYTES, this.#segmentBytes)
    const limit = Math.min(this.#maxBytes, bytes + groupBytes)
    const end = this.#queue.findIndex(({ record }, place) => {
      bytes += record.length
      return bytes > (place === 0 ? this.#maxBytes : limit)
    })
    return this.#queue.splice(0, end === -1 ? this.#queue.length : end)
  }

  #hasRoom(): boolean {
    const [next] = this.#queue
    return next !== undefined && this.bytes + next.record.length <= this.#maxBytes
  }

  #forget(): Promise<void> {
    return this.#inTurn(async () => {
      const heldFrom = Math.min(...[...this.#holds].map(({ from }) => from))
      const upTo = Math.min(this.#acknowledged, heldFrom - 1)
      if (this.last <= upTo) await this.#retire()
      await this.#segments.removeUpTo(upTo)
      this.#schedule()
    })
  }

  /** Begins a new segment if the last one is large enough, so that the last one can be removed. */
  async #retire(): Promise<void> {
    try {
      await this.#segments.rotate(this.#segmentBytes)
    } catch (thrown) {
      // Without space for a new segment the old one stays, until the next acknowledgement.
      if (toJournalError(thrown, "the journal").code !== "journal.disk_full") throw thrown
    }
  }

  #inTurn<Result>(task: () => Promise<Result>): Promise<Result> {
    const result = this.#work.then(task)
    this.#work = result.catch(() => {})
    return result
  }
}

const rejectAll = (entries: readonly Entry[], reason: unknown): void => {
  for (const { reject } of entries) reject(reason)
}

const closedError = () => new BerthError("journal.closed", "the journal is closed")
