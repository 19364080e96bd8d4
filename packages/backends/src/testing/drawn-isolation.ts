import { isDrawnOf } from "@berth/testing/sampled"

/** The backends that pass the suite of isolation a second time, by another runtime or setting. */
const TWINS = ["embedded on runc", "docker with user namespaces"] as const

/** Tells whether the run's seed draws this twin. */
export const isDrawnTwin = (name: (typeof TWINS)[number]): boolean =>
  isDrawnOf("twins of the isolation suite", TWINS, name)

const WITH_SMALL_DISKS = ["embedded", "docker"] as const

/** Tells whether the run's seed draws this backend to fill a small disk. */
export const isDrawnForSmallDisk = (name: (typeof WITH_SMALL_DISKS)[number]): boolean =>
  isDrawnOf("isolation suites on a small disk", WITH_SMALL_DISKS, name)
