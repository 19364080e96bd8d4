import { join } from "node:path"

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

/**
 * `log`: its numbers hold. `uncertain`: they hold from the moment when the server has said which number it
 * saw last, because a power loss may have taken events that it had already been sent.
 */
export type SegmentKind = "log" | "uncertain"

const NAME = /^(\d{16})\.(log|uncertain)$/

export const segmentPath = (directory: string, first: number, kind: SegmentKind): string =>
  join(directory, `${String(first).padStart(16, "0")}.${kind}`)

/** The parts of a segment's name; undefined for files that are none. */
export const parseSegmentName = (
  name: string,
): { first: number; kind: SegmentKind } | undefined => {
  const [, digits, kind] = NAME.exec(name) ?? []
  return digits === undefined ? undefined : { first: Number(digits), kind: kind as SegmentKind }
}

export const lastOf = ({ first, count }: Segment): number => first + count - 1
