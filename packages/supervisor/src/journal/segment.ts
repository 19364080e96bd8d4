import { join } from "node:path"
import { type SegmentKind, segmentName } from "@berth/protocol/journal-record"

/**
 * A piece of the journal: one file, removed as a whole when all of its events are acknowledged. The number of
 * its first event is its name, and no record holds a number: renaming a segment numbers its events anew.
 */
export interface Segment {
  readonly path: string
  readonly first: number
  /** How many events it holds. */
  count: number
  bytes: number
}

export const segmentPath = (directory: string, first: number, kind: SegmentKind): string =>
  join(directory, segmentName(first, kind))

export const lastOf = ({ first, count }: Segment): number => first + count - 1
