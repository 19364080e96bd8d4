import { join } from "node:path"
import { type SegmentKind, segmentName } from "@berth/protocol/journal-record"

/**
 * A part of the journal: one file, removed as a whole when all of its events are acknowledged. Its name is the number
 * of its first event, and no record holds a number, so renaming a segment renumbers its events.
 */
export interface Segment {
  readonly path: string
  readonly first: number
  /** The number of events. */
  count: number
  bytes: number
}

export const segmentPath = (directory: string, first: number, kind: SegmentKind): string =>
  join(directory, segmentName(first, kind))

export const lastOf = ({ first, count }: Segment): number => first + count - 1
