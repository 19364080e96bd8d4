import { mkdir, readdir, rename, unlink } from "node:fs/promises"
import { basename } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { parseSegmentName, type SegmentKind } from "@berth/protocol/journal-record"
import { syncDirectory } from "./directory.ts"
import { toJournalError } from "./fault.ts"
import { markOpen, mayHaveLost } from "./power-loss.ts"
import { RecordFile } from "./record-file.ts"
import { lastOf, type Segment, segmentPath } from "./segment.ts"

export interface Recovered {
  /** The segments, without a gap between them. The last one grows. */
  readonly segments: Segment[]
  /** The file of the last segment. */
  readonly file: RecordFile
  readonly kind: SegmentKind
  /** The size of an unfinished write after the last whole record. */
  readonly cutBytes: number
}

/** Repairs the directory after whatever happened to its last user, and opens its last segment. */
export const recover = async (directory: string, machine: string): Promise<Recovered> => {
  try {
    return await bringIntoOrder(directory, machine)
  } catch (thrown) {
    throw toJournalError(thrown, directory)
  }
}

const bringIntoOrder = async (directory: string, machine: string): Promise<Recovered> => {
  await mkdir(directory, { recursive: true, mode: 0o700 })
  const names = await listSegments(directory)
  const found: Segment[] = []
  let last: Recovered | undefined
  for (const [place, { first, kind }] of names.entries()) {
    await last?.file.close()
    last = await readSegment(directory, { first, kind, isLast: place === names.length - 1 })
    found.push(...last.segments)
  }
  if (last === undefined) return await begin(directory, machine)
  await last.file.cut()
  await last.file.sync()
  const whole = { ...last, segments: await dropBeforeGap(found) }
  const uncertain = last.kind === "log" && (await mayHaveLost(directory, machine))
  const ready = uncertain ? await continueUncertain(directory, whole) : whole
  await markOpen(directory, machine)
  return ready
}

const begin = async (directory: string, machine: string): Promise<Recovered> => {
  const file = await RecordFile.create(segmentPath(directory, 1, "log"))
  await markOpen(directory, machine)
  const segment = { path: file.path, first: 1, count: 0, bytes: 0 }
  return { segments: [segment], file, kind: "log", cutBytes: 0 }
}

const listSegments = async (directory: string) =>
  (await readdir(directory))
    .flatMap((name) => parseSegmentName(name) ?? [])
    .sort((one, other) => one.first - other.first || (one.kind === "log" ? -1 : 1))

const readSegment = async (
  directory: string,
  { first, kind, isLast }: { first: number; kind: SegmentKind; isLast: boolean },
): Promise<Recovered> => {
  let count = 0
  const path = segmentPath(directory, first, kind)
  const { file, tornBytes } = await RecordFile.read(path, () => {
    count++
  })
  // A segment is wholly on disk before the next one is made.
  if (tornBytes > 0 && !isLast) {
    await file.close()
    throw new BerthError("journal.damaged", `${basename(path)} is damaged in its middle`, {
      details: { path, goodBytes: file.bytes },
    })
  }
  return {
    segments: [{ path, first, count, bytes: file.bytes }],
    file,
    kind,
    cutBytes: tornBytes,
  }
}

/**
 * Drops the segments before a gap. Only acknowledged segments are ever removed, oldest first, so those before a gap
 * were acknowledged too.
 */
const dropBeforeGap = async (segments: Segment[]): Promise<Segment[]> => {
  const gapBefore = (segment: Segment, place: number): boolean => {
    const before = segments[place - 1]
    if (before === undefined || lastOf(before) + 1 === segment.first) return false
    if (lastOf(before) + 1 < segment.first) return true
    throw new BerthError("journal.damaged", "two segments hold the same numbers", {
      details: { paths: [before.path, segment.path] },
    })
  }
  const start = Math.max(0, segments.findLastIndex(gapBefore))
  for (const { path } of segments.slice(0, start)) await unlink(path)
  return segments.slice(start)
}

/** Continues in a new segment, whose numbers are final once the server has said which number it saw last. */
const continueUncertain = async (directory: string, found: Recovered): Promise<Recovered> => {
  const end = found.segments.at(-1)
  if (end === undefined) return found
  await found.file.close()
  const path = segmentPath(directory, lastOf(end) + 1, "uncertain")
  if (end.count === 0) await rename(end.path, path)
  else await (await RecordFile.create(path)).close()
  await syncDirectory(directory)
  const { file } = await RecordFile.read(path)
  const kept = end.count === 0 ? found.segments.slice(0, -1) : found.segments
  const segment = { path, first: lastOf(end) + 1, count: 0, bytes: 0 }
  return { segments: [...kept, segment], file, kind: "uncertain", cutBytes: found.cutBytes }
}
