import type { FstabEntry } from "./fstab.ts"

/** A map from ids of files to others. */
export interface IdMap {
  /** The first id of the range that files have on disk. */
  readonly onDisk: number
  /** The first id of the range that the files appear with. */
  readonly own: number
  /** The length of both ranges. */
  readonly count: number
}

/** The mount option of util-linux 2.39; `mountCommand` knows it as well. */
export const MAP_OPTION = "X-mount.idmap"

/** The number of all ids except the last, which stands for none. */
const ALL_IDS = 0xffff_ffff

/**
 * The mount that covers a directory, and everything mounted below it, with itself under mapped ids. Files that have the
 * range `onDisk` on the disk appear with the range `own`; files written with `own` get `onDisk` on the disk.
 */
export const mappedEntry = (path: string, map: IdMap): FstabEntry => ({
  source: path,
  target: path,
  type: "none",
  options: ["rbind", `${MAP_OPTION}=${extents(map).join(" ")}`],
})

/**
 * The parts of the map. Every other id stays as it is: without root's, the kernel could make no work directory of an
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
