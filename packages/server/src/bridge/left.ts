import { closeSync, constants, fstatSync, openSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { type Event, SandboxEvent } from "@berth/protocol/event"
import { decodeRecord, parseSegmentName } from "@berth/protocol/journal-record"
import { LINK } from "@berth/protocol/link"
import { parseFromSandbox } from "./parse.ts"

/** A journal has no more than this. */
const MAX_SEGMENT_BYTES = 80 * 1024 * 1024
const MAX_SEGMENTS = 64
const BATCH_EVENTS = 500

const Kept = SandboxEvent.omit({ sequence: true })

/**
 * What a sandbox that does not run any more had written to its journal after that number. The directory was in its
 * hands: no link is followed, and what is no journal of ours is an error, after all that comes before it.
 */
export async function* readLeft(
  { directory }: { readonly directory: string },
  after: number,
): AsyncGenerator<readonly Event[]> {
  const journal = openAs(join(directory, LINK.journal), constants.O_DIRECTORY)
  if (journal === undefined) return
  try {
    let batch: Event[] = []
    try {
      for (const event of eventsIn(`/proc/self/fd/${journal}`, after)) {
        batch.push(event)
        if (batch.length < BATCH_EVENTS) continue
        yield batch
        batch = []
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

function* eventsIn(directory: string, after: number): Generator<Event> {
  const segments = readdirSync(directory)
    .flatMap((name) => {
      const parsed = parseSegmentName(name)
      return parsed === undefined ? [] : [{ name, ...parsed }]
    })
    .sort((one, other) => one.first - other.first)
  if (segments.length > MAX_SEGMENTS) throw damaged("it has too many pieces")
  let next = after + 1
  for (const { name, first, kind } of segments) {
    // Numbers that nobody was told yet follow what was seen last.
    let sequence = kind === "uncertain" ? Math.max(first, next) : first
    for (const payload of recordsIn(join(directory, name))) {
      if (sequence > next && next > after + 1) throw damaged(`event ${next} is missing`)
      if (sequence > next) {
        yield notHeld(next, sequence - 1)
        next = sequence
      }
      if (sequence === next) yield { sequence: next++, ...parseFromSandbox(payload, Kept) }
      sequence++
    }
  }
}

/** Up to what a write that never ended left. */
function* recordsIn(path: string): Generator<Buffer> {
  const file = openAs(path, constants.O_NONBLOCK)
  if (file === undefined) return
  try {
    const status = fstatSync(file)
    if (!status.isFile() || status.size > MAX_SEGMENT_BYTES)
      throw damaged("a piece is no file of it")
    const bytes = readFileSync(file)
    for (let offset = 0; ; ) {
      const decoded = decodeRecord(bytes, offset)
      if (decoded.kind !== "record") return
      yield decoded.payload
      offset = decoded.end
    }
  } finally {
    closeSync(file)
  }
}

/** A server may have lost to a power loss what it had acknowledged: its sandbox has forgotten that. */
const notHeld = (from: number, to: number): Event => ({
  ...{ sequence: to, at: new Date().toISOString() },
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
