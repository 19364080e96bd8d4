import type { CgroupMounts } from "@berth/host/cgroups/mounts"

/**
 * The controllers that Berth uses. In v2, freezing and the count of CPU time belong to every cgroup; in v1 they are
 * controllers too.
 */
const CONTROLLERS = ["memory", "pids", "cpu", "cpuacct", "freezer"] as const
export type Controller = (typeof CONTROLLERS)[number]

/** The controllers that a v2 cgroup has only if its parent hands them on. */
export const HANDED_ON: ReadonlySet<Controller> = new Set(["memory", "pids", "cpu"])

/** A mounted hierarchy, with the controllers that it is used for. */
export interface Hierarchy {
  readonly version: 1 | 2
  readonly mount: string
  readonly controllers: ReadonlySet<Controller>
}

/** A cgroup's directory in one hierarchy, and the controllers that work in it. */
export interface Place {
  readonly version: 1 | 2
  readonly controllers: ReadonlySet<Controller>
  readonly directory: string
}

/**
 * Chooses the hierarchy for each controller. A controller is either in v1 or in v2, never in both. A v2 hierarchy
 * without a controller that v1 lacks is left alone.
 * @param v2Controllers the text of `cgroup.controllers` in the v2 hierarchy
 */
export const chooseHierarchies = (
  mounts: CgroupMounts,
  v2Controllers: string,
): readonly Hierarchy[] => {
  const offered = new Set(v2Controllers.trim().split(/\s+/))
  const chosen = new Map<string, { version: 1 | 2; controllers: Set<Controller> }>()
  const use = (mount: string, version: 1 | 2, controller: Controller) => {
    const controllers = chosen.get(mount)?.controllers ?? new Set<Controller>()
    chosen.set(mount, { version, controllers: controllers.add(controller) })
  }
  for (const controller of CONTROLLERS) {
    const v1 = mounts.v1.get(controller)
    if (v1 !== undefined) use(v1, 1, controller)
    else if (mounts.v2 !== undefined && (!HANDED_ON.has(controller) || offered.has(controller))) {
      use(mounts.v2, 2, controller)
    }
  }
  return [...chosen].map(([mount, { version, controllers }]) => ({ version, mount, controllers }))
}
