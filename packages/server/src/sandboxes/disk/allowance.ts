import type { FreeSpace } from "@berth/host/free-space"
import { type Disk, FASTEST } from "./judge.ts"

/** The most that a workspace's own files may take of the disk. */
export interface Allowance {
  readonly bytes?: number | undefined
  readonly inodes?: number | undefined
}

/** The room that a sandbox's files took when they were last measured. */
export interface Measured {
  /** A resource that was not measured yet is absent. Infinity: more than could be counted in the time for it. */
  readonly used: Partial<FreeSpace>
  /** The room that was left on the disk then. */
  readonly free: FreeSpace
  readonly atMs: number
  readonly tookMs: number
}

const RESOURCES = ["bytes", "inodes"] as const

/** Says by how much a sandbox is over what it may take; undefined if it is not. */
export const excessOf = (
  { used }: Pick<Measured, "used">,
  allowance: Allowance,
): string | undefined => {
  const { bytes, inodes } = allowance
  if (bytes !== undefined && (used.bytes ?? 0) > bytes)
    return `its files take ${said(used.bytes, spoken)} of the ${spoken(bytes)} that limits.diskBytes allows`
  if (inodes !== undefined && (used.inodes ?? 0) > inodes)
    return `it has ${said(used.inodes, counted)} files of the ${counted(inodes)} that limits.diskInodes allows`
  return undefined
}

/** A bounded sandbox is measured at least this often, because room that others free hides what it takes. */
const STALE_MS = 60_000
/** A sandbox over its limit is measured this often: a person makes room in it, and waits for that to be seen. */
const OVER_STALE_MS = 2_000
/** Measuring takes at most a tenth of the time, and a fiftieth if the disk says that nothing was written. */
const BUSY_SHARE = 10
const QUIET_SHARE = 50

/**
 * Decides whether a sandbox is measured. Its files cannot have grown by more than the disk has lost since the last
 * time, unless somebody else has freed room: then its age decides.
 *
 * A sandbox without bounds is measured for the day on which the disk runs short, when the writer is the one that grew.
 * While the disk is half free that is needless: the one that fills it then has most in any case. From there on each is
 * measured whenever half of the room that was free is gone.
 */
export const isDue = (
  measured: Measured | undefined,
  allowance: Allowance,
  { free, size }: Disk,
  nowMs: number,
): boolean => {
  if (measured === undefined)
    return isBounded(allowance) || RESOURCES.some((what) => free[what] < size[what] / 2)
  const { used, tookMs } = measured
  const ageMs = nowMs - measured.atMs
  if (ageMs < BUSY_SHARE * tookMs) return false
  if (RESOURCES.some((what) => used[what] === undefined)) return true
  const staleMs = excessOf(measured, allowance) === undefined ? STALE_MS : OVER_STALE_MS
  if (isBounded(allowance) && ageMs >= Math.max(staleMs, QUIET_SHARE * tookMs)) return true
  return RESOURCES.some((what) => {
    const most = Math.min(headroom(measured, allowance, what), measured.free[what] / 2)
    const lost = measured.free[what] - free[what]
    return lost > 0 && lost >= most
  })
}

/** A bounded sandbox is looked at no sooner: it cannot be kept from taking a little too much. */
const SOONEST_MS = 1_000

/** The time after which a sandbox can have reached its limit. */
export const untilFullMs = (measured: Measured | undefined, allowance: Allowance): number => {
  if (!isBounded(allowance)) return Number.POSITIVE_INFINITY
  if (measured === undefined) return SOONEST_MS
  const times = RESOURCES.map(
    (what) => (1_000 * headroom(measured, allowance, what)) / FASTEST[what],
  )
  return Math.max(SOONEST_MS, Math.min(...times))
}

const isBounded = ({ bytes, inodes }: Allowance): boolean =>
  bytes !== undefined || inodes !== undefined

const headroom = ({ used }: Measured, allowance: Allowance, what: keyof FreeSpace): number =>
  Math.max(0, (allowance[what] ?? Number.POSITIVE_INFINITY) - (used[what] ?? 0))

const said = (amount: number | undefined, words: (amount: number) => string): string =>
  amount === undefined || amount === Number.POSITIVE_INFINITY
    ? "more than can be counted"
    : words(amount)

const counted = (count: number): string => count.toLocaleString("en")

/** Formats bytes: `640 MB`, `12.1 GB`. */
const spoken = (bytes: number): string =>
  bytes < 1e9 ? `${Math.ceil(bytes / 1e6)} MB` : `${Number((bytes / 1e9).toFixed(1))} GB`
