import type { CgroupMounts } from "@berth/host/cgroups/mounts"
import type { CgroupAbility, Held } from "./cgroups.ts"
import type { Base } from "./find-base.ts"
import type { Controller, Hierarchy } from "./hierarchy.ts"

/**
 * Says which limits and abilities cgroups hold on this host, and why the others are missing.
 * @param bases the places of the installation's group of cgroups, one in each hierarchy that has one
 * @param refused the hierarchies that have none, with the kernel's words
 */
export const judgeAbilities = (
  mounts: CgroupMounts,
  bases: readonly Base[],
  refused: ReadonlyMap<Hierarchy, string>,
): Readonly<Record<CgroupAbility, Held>> => {
  const holds = (controller: Controller): Held => {
    if (bases.some((base) => base.controllers.has(controller))) return { held: true }
    const why =
      bases.map((base) => base.missing.get(controller)).find((it) => it !== undefined) ??
      [...refused].find(([hierarchy]) => hierarchy.controllers.has(controller))?.[1]
    return { held: false, why: why ?? whyAbsent(mounts, controller) }
  }
  return {
    memoryBytes: holds("memory"),
    cpus: holds("cpu"),
    pids: holds("pids"),
    pause: holds("freezer"),
    kill:
      bases.length > 0
        ? { held: true }
        : { held: false, why: [...refused.values()][0] ?? whyAbsent(mounts, "freezer") },
  }
}

const whyAbsent = ({ mode }: CgroupMounts, controller: Controller): string =>
  mode === "none"
    ? "no cgroup hierarchy is mounted"
    : `no mounted cgroup hierarchy has the ${controller} controller`
