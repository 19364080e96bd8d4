import { rename, unlink } from "node:fs/promises"
import { syncDirectory } from "./directory.ts"
import { toJournalError } from "./fault.ts"
import { markClosed } from "./power-loss.ts"
import { RecordFile } from "./record-file.ts"
import { type Recovered, recover } from "./recover.ts"
import { lastOf, type Segment, segmentPath } from "./segment.ts"

/** The files of a journal: consecutive segments, of which the last one grows. Calls must not overlap. */
export class Segments {
  readonly #directory: string
  #all: Segment[]
  #file: RecordFile
  #uncertain: boolean
  /** The size of an unfinished write that was cut off the end. */
  readonly cutBytes: number

  static async open(directory: string, machine: string): Promise<Segments> {
    return new Segments(directory, await recover(directory, machine))
  }

  private constructor(directory: string, { segments, file, kind, cutBytes }: Recovered) {
    this.#directory = directory
    this.#all = segments
    this.#file = file
    this.#uncertain = kind === "uncertain"
    this.cutBytes = cutBytes
  }

  /** The first number that is held; `last` + 1 if there is none. */
  get first(): number {
    return this.#all[0]?.first ?? this.last + 1
  }

  get last(): number {
    return lastOf(this.#growing)
  }

  get bytes(): number {
    return this.#all.reduce((sum, { bytes }) => sum + bytes, 0)
  }

  /** The segment that holds the event with that number. */
  locate(sequence: number): Segment | undefined {
    return this.#all.find((segment) => segment.first <= sequence && sequence <= lastOf(segment))
  }

  async append(records: readonly Buffer[], options: { durable: boolean }): Promise<void> {
    await this.#file.append(records, options)
    this.#growing.count += records.length
    this.#growing.bytes = this.#file.bytes
  }

  /** Begins a new segment if the last one has reached that size. */
  async rotate(bytes: number): Promise<void> {
    // An uncertain segment stays one file, so that one rename settles its numbers.
    if (this.#growing.bytes < bytes || this.#uncertain) return
    await this.#file.sync()
    const first = this.last + 1
    const file = await this.#create(first)
    await this.#file.close()
    this.#file = file
    this.#all.push({ path: file.path, first, count: 0, bytes: 0 })
  }

  /** Removes the segments without events beyond that number, except the growing one. */
  async removeUpTo(sequence: number): Promise<void> {
    for (;;) {
      const [oldest, next] = this.#all
      if (oldest === undefined || next === undefined || lastOf(oldest) > sequence) return
      await removeFile(oldest.path)
      this.#all.shift()
    }
  }

  /**
   * Settles the numbers of events that were appended since a power loss: they follow the last one that the server saw.
   */
  async settle(lastSeen: number): Promise<void> {
    if (!this.#uncertain) return
    const { path, first, count, bytes } = this.#growing
    const settledFirst = Math.max(first, lastSeen + 1)
    const settledPath = segmentPath(this.#directory, settledFirst, "log")
    try {
      await rename(path, settledPath)
    } catch (thrown) {
      throw toJournalError(thrown, path)
    }
    await syncDirectory(this.#directory)
    this.#all.splice(-1, 1, { path: settledPath, first: settledFirst, count, bytes })
    this.#uncertain = false
  }

  async close(): Promise<void> {
    await this.#file.sync()
    await markClosed(this.#directory)
    await this.#file.close()
  }

  /**
   * Creates the file of a new segment. Removes it on failure, as a file left behind would be taken for the journal's
   * end.
   */
  async #create(first: number): Promise<RecordFile> {
    const file = await RecordFile.create(segmentPath(this.#directory, first, "log"))
    try {
      await syncDirectory(this.#directory)
      return file
    } catch (thrown) {
      await file.close()
      await removeFile(file.path)
      throw thrown
    }
  }

  get #growing(): Segment {
    const segment = this.#all.at(-1)
    if (segment === undefined) throw new Error("a journal has at least one segment")
    return segment
  }
}

const removeFile = async (path: string): Promise<void> => {
  try {
    await unlink(path)
  } catch (thrown) {
    throw toJournalError(thrown, path)
  }
}
