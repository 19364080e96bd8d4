import { isDrawnOf } from "@berth/testing/sampled"

/** The backends that pass the suite of isolation a second time, by another runtime or setting. */
const TWINS = ["embedded on runc", "docker with user namespaces"] as const

/** Whether this one passes the suite in this run. */
export const isDrawnTwin = (name: (typeof TWINS)[number]): boolean =>
  isDrawnOf("twins of the isolation suite", TWINS, name)

const WITH_SMALL_DISKS = ["embedded", "docker"] as const

/** Whether this one's sandboxes fill a small disk in this run. */
export const isDrawnForSmallDisk = (name: (typeof WITH_SMALL_DISKS)[number]): boolean =>
  isDrawnOf("isolation suites on a small disk", WITH_SMALL_DISKS, name)
