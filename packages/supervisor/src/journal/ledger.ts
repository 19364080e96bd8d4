import { mkdir, rename, rm } from "node:fs/promises"
import { join } from "node:path"
import type { PromptResult, PromptStanding, PromptStart } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { PromptId } from "@berth/protocol/ids"
import { encodeRecord } from "@berth/protocol/journal-record"
import { syncDirectory } from "./directory.ts"
import { toJournalError } from "./fault.ts"
import { RecordFile } from "./record-file.ts"
import { type LedgerEntry, Standings } from "./standings.ts"

const NAME = "ledger"

/** From this size on the ledger is rewritten without the texts of prompts that have ended. */
const MIN_COMPACTION_BYTES = 1024 * 1024

interface Noting {
  readonly entries: readonly LedgerEntry[]
  readonly resolve: () => void
  readonly reject: (reason: unknown) => void
}

/** Opens the ledger of a sandbox. `directory` outlives the supervisor: the next one of the sandbox goes on with it. */
export const openLedger = async (directory: string): Promise<Ledger> => {
  const path = join(directory, NAME)
  const standings = new Standings()
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 })
    await rm(`${path}.new`, { force: true })
    const file = await openFile(path, (payload) =>
      standings.apply(JSON.parse(payload.toString("utf8"))),
    )
    await syncDirectory(directory)
    return new Ledger(directory, file, standings)
  } catch (thrown) {
    throw toJournalError(thrown, path)
  }
}

const openFile = async (path: string, onRecord: (payload: Buffer) => void): Promise<RecordFile> => {
  try {
    const { file } = await RecordFile.read(path, onRecord)
    // A torn record was never confirmed: every note is synced before anything follows from it.
    await file.cut()
    return file
  } catch (thrown) {
    if (!isMissing(thrown)) throw thrown
    return await RecordFile.create(path)
  }
}

/**
 * Every prompt that this workspace was ever given, so that none runs twice. When a method resolves, its note is on disk
 * and survives a power loss.
 */
export class Ledger {
  readonly #directory: string
  readonly #standings: Standings
  #file: RecordFile
  #compactAtBytes: number
  /** Whether a power loss could undo the rename of the compacted file. */
  #renamed = false
  #queue: Noting[] = []
  #writing: Promise<void> | undefined
  readonly #accepting = new Map<PromptId, Promise<PromptStanding>>()
  #closed: Promise<void> | undefined

  constructor(directory: string, file: RecordFile, standings: Standings) {
    this.#directory = directory
    this.#file = file
    this.#standings = standings
    this.#compactAtBytes = Math.max(MIN_COMPACTION_BYTES, file.bytes)
  }

  standing(prompt: PromptId): PromptStanding {
    return this.#standings.of(prompt)
  }

  /** The prompts that may still be started, in the order in which they were accepted. */
  get accepted(): readonly PromptStart[] {
    return this.#standings.accepted
  }

  get started(): readonly PromptId[] {
    return this.#standings.started
  }

  /** The prompts that have ended, and whose end is not known to be in the journal. */
  get unreported(): readonly { prompt: PromptId; result: PromptResult }[] {
    return this.#standings.unreported
  }

  /**
   * Accepts a prompt, unless it is known. `isNew` is true for the one call that accepted it. A prompt that starts at
   * once is noted as started with the same write, so that its agent waits for one write to the disk instead of two.
   */
  async accept(
    start: PromptStart,
    { startsNow = false }: { readonly startsNow?: boolean } = {},
  ): Promise<{ standing: PromptStanding; isNew: boolean }> {
    const { prompt } = start
    const standing = this.standing(prompt)
    if (standing.state !== "unknown") return { standing, isNew: false }
    const underWay = this.#accepting.get(prompt)
    if (underWay !== undefined) return { standing: await underWay, isNew: false }
    // Assigned before the first await, so that concurrent repeats share one attempt.
    const accepted: LedgerEntry = { note: "accepted", start }
    const notes: LedgerEntry[] = startsNow ? [accepted, { note: "started", prompt }] : [accepted]
    const accepting = this.#note(...notes).then(() => this.standing(prompt))
    this.#accepting.set(prompt, accepting)
    try {
      return { standing: await accepting, isNew: true }
    } finally {
      this.#accepting.delete(prompt)
    }
  }

  /** Notes the start, before the agent gets the prompt. From here on it is never started again. */
  start(prompt: PromptId): Promise<void> {
    return this.#note({ note: "started", prompt })
  }

  end(prompt: PromptId, result: PromptResult): Promise<void> {
    return this.#note({ note: "ended", prompt, result })
  }

  /** Notes that the event of the prompt's end is in the journal. */
  report(prompt: PromptId): Promise<void> {
    return this.#note({ note: "reported", prompt })
  }

  /** Waits for the write under way. A second call waits for the same end. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  async #close(): Promise<void> {
    await this.#writing
    await this.#file.close()
  }

  async #note(...entries: readonly LedgerEntry[]): Promise<void> {
    if (this.#closed !== undefined) throw new BerthError("journal.closed", "the ledger is closed")
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#queue.push({ entries, resolve, reject })
    this.#writing ??= this.#write()
    await promise
  }

  /** Writes groups: notes that come while one group is being synced make the next. */
  async #write(): Promise<void> {
    while (this.#queue.length > 0) {
      const group = this.#queue.splice(0)
      try {
        await this.#syncName()
        await this.#file.append(
          group.flatMap(({ entries }) => entries.map(encode)),
          { durable: true },
        )
        for (const { entries, resolve } of group) {
          for (const entry of entries) this.#standings.apply(entry)
          resolve()
        }
      } catch (thrown) {
        for (const { reject } of group) reject(thrown)
      }
      if (this.#file.bytes > this.#compactAtBytes) await this.#compact()
    }
    // Cleared in the same turn as the last check of the queue, so that nothing can be left in it.
    this.#writing = undefined
  }

  async #syncName(): Promise<void> {
    if (!this.#renamed) return
    await syncDirectory(this.#directory)
    this.#renamed = false
  }

  async #compact(): Promise<void> {
    const path = join(this.#directory, NAME)
    const aside = `${path}.new`
    try {
      await rm(aside, { force: true })
      const file = await RecordFile.create(aside)
      try {
        await file.append([...this.#standings.entries()].map(encode), { durable: true })
        await rename(aside, path)
      } catch (thrown) {
        await file.close()
        throw thrown
      }
      const before = this.#file
      this.#file = file
      this.#renamed = true
      await before.close()
    } catch {
      // The old file has the same content. A disk that is full now may have space later.
    }
    this.#compactAtBytes = Math.max(MIN_COMPACTION_BYTES, this.#file.bytes * 2)
  }
}

const encode = (entry: LedgerEntry): Buffer => encodeRecord(Buffer.from(JSON.stringify(entry)))

const isMissing = (thrown: unknown): boolean =>
  thrown instanceof BerthError &&
  thrown.cause instanceof Error &&
  "code" in thrown.cause &&
  thrown.cause.code === "ENOENT"
