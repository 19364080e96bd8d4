import { closeSync, constants, fstatSync, opendirSync, openSync, read } from "node:fs"
import { join } from "node:path"
import { setImmediate as soon } from "node:timers/promises"
import { promisify } from "node:util"
import { BerthError } from "@berth/protocol/errors"
import { type Event, SandboxEvent } from "@berth/protocol/event"
import { decodeRecord, parseSegmentName } from "@berth/protocol/journal-record"
import { SHARED } from "@berth/protocol/shared-directory"
import { parseFromSandbox } from "./parse.ts"

/** The bounds on a journal. */
const MAX_SEGMENT_BYTES = 80 * 1024 * 1024
const MAX_SEGMENTS = 64
/** Besides its segments, a journal has a few other files. */
const MAX_NAMES = 1_000
const BATCH_EVENTS = 256
const BATCH_BYTES = 1024 * 1024

/** Bytes that are read at a time; a larger record is read whole. */
const WINDOW_BYTES = 1024 * 1024

const readAt = promisify(read)

const Kept = SandboxEvent.omit({ sequence: true })

/**
 * Reads the events after that number from the journal of a sandbox that no longer runs. The sandbox controlled the
 * directory: no link is followed, and anything that is no journal is an error, after the events before it.
 */
export async function* readLeft(
  { directory }: { readonly directory: string },
  after: number,
): AsyncGenerator<readonly Event[]> {
  const journal = openAs(join(directory, SHARED.journal), constants.O_DIRECTORY)
  if (journal === undefined) return
  try {
    let batch: Event[] = []
    let bytes = 0
    try {
      for await (const { event, size } of eventsIn(`/proc/self/fd/${journal}`, after)) {
        batch.push(event)
        bytes += size
        if (batch.length < BATCH_EVENTS && bytes < BATCH_BYTES) continue
        yield batch
        batch = []
        bytes = 0
        await soon()
      }
    } catch (thrown) {
      if (batch.length > 0) yield batch
      throw thrown
    }
    if (batch.length > 0) yield batch
  } finally {
    closeSync(journal)
  }
}

interface Left {
  readonly event: Event
  readonly size: number
}

async function* eventsIn(directory: string, after: number): AsyncGenerator<Left> {
  const segments = namesIn(directory)
    .flatMap((name) => {
      const parsed = parseSegmentName(name)
      return parsed === undefined ? [] : [{ name, ...parsed }]
    })
    .sort((one, other) => one.first - other.first)
  if (segments.length > MAX_SEGMENTS) throw damaged("it has too many pieces")
  let next = after + 1
  for (const { name, first, kind } of segments) {
    // Numbers that were never sent follow the last one that was seen.
    let sequence = kind === "uncertain" ? Math.max(first, next) : first
    for await (const payload of recordsIn(join(directory, name))) {
      if (sequence > next && next > after + 1) throw damaged(`event ${next} is missing`)
      if (sequence > next) {
        yield { event: notHeld(next, sequence - 1), size: 0 }
        next = sequence
      }
      if (sequence === next) {
        const event = { sequence: next++, ...parseFromSandbox(payload, Kept) }
        yield { event, size: payload.length }
      }
      sequence++
    }
  }
}

/** The names in a directory, no more than a journal could need: a sandbox may have filled it with names. */
const namesIn = (directory: string): string[] => {
  const names: string[] = []
  const entries = opendirSync(directory)
  try {
    for (let entry = entries.readSync(); entry !== null; entry = entries.readSync())
      if (names.push(entry.name) > MAX_NAMES) throw damaged("there is too much beside it")
  } finally {
    entries.closeSync()
  }
  return names
}

/** The records of a segment, up to a write that never ended. */
async function* recordsIn(path: string): AsyncGenerator<Buffer> {
  const file = openAs(path, constants.O_NONBLOCK)
  if (file === undefined) return
  try {
    const status = fstatSync(file)
    if (!status.isFile() || status.size > MAX_SEGMENT_BYTES)
      throw damaged("a piece is no file of it")
    let wanted = WINDOW_BYTES
    for (let start = 0; start < status.size; ) {
      const window = Buffer.alloc(Math.min(wanted, status.size - start))
      const { bytesRead } = await readAt(file, window, 0, window.length, start)
      const bytes = window.subarray(0, bytesRead)
      let offset = 0
      let decoded = decodeRecord(bytes, offset)
      while (decoded.kind === "record") {
        yield decoded.payload
        offset = decoded.end
        decoded = decodeRecord(bytes, offset)
      }
      // A record that is longer than the rest of the file was never completely written.
      if (decoded.kind === "invalid" || start + offset + decoded.bytes > status.size) return
      if (offset === 0 && decoded.bytes <= bytes.length) return
      wanted = Math.max(WINDOW_BYTES, decoded.bytes)
      start += offset
    }
  } finally {
    closeSync(file)
  }
}

/**
 * The event for missing events: a server may have lost acknowledged ones to a power loss, and its sandbox has forgotten
 * them.
 */
const notHeld = (from: number, to: number): Event => ({
  sequence: to,
  at: new Date().toISOString(),
  body: { type: "gap", reason: `the events ${from} to ${to} of the sandbox are not held any more` },
})

const openAs = (path: string, flag: number): number | undefined => {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | flag)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined
    throw damaged("it cannot be opened", cause)
  }
}

const damaged = (how: string, cause?: unknown): BerthError =>
  new BerthError("journal.damaged", `the journal that the sandbox left is damaged: ${how}`, {
    cause,
  })
