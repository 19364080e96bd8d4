import type { FstabEntry } from "./fstab.ts"

/** A map from ids of files to others. */
export interface IdMap {
  /** The first id of the range that files have on disk. */
  readonly onDisk: number
  /** The first id of the range that they appear with. */
  readonly own: number
  /** The length of both. */
  readonly count: number
}

/** The mount option of util-linux 2.39; `mountCommand` knows it as well. */
export const MAP_OPTION = "X-mount.idmap"

/** All ids but the last, which stands for none. */
const ALL_IDS = 0xffff_ffff

/**
 * Covers a directory, and what is mounted below it, with itself, where files that have one range of ids on disk belong to
 * another, and what is written by those has the first on disk.
 */
export const mappedEntry = (path: string, map: IdMap): FstabEntry => ({
  source: path,
  target: path,
  type: "none",
  options: ["rbind", `${MAP_OPTION}=${extents(map).join(" ")}`],
})

/**
 * Every other id stays what it is, as it would without a map: without root's, the kernel could make no work directory of an
 * overlay. A file that has an id of the own range on disk would belong to nobody.
 */
const extents = ({ onDisk, own, count }: IdMap): string[] => {
  const [lower, upper] = onDisk < own ? [onDisk, own] : [own, onDisk]
  const unchanged = [
    { from: 0, to: lower },
    { from: lower + count, to: upper },
    { from: upper + count, to: ALL_IDS },
  ].filter(({ from, to }) => from < to)
  return [
    `b:${onDisk}:${own}:${count}`,
    ...unchanged.map(({ from, to }) => `b:${from}:${from}:${to - from}`),
  ]
}
