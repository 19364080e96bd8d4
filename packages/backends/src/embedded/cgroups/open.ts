import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"
import { parseMembership } from "@berth/host/cgroups/membership"
import { type CgroupMounts, parseCgroupMounts } from "@berth/host/cgroups/mounts"
import { SandboxId } from "@berth/protocol/ids"
import { cgroupOf } from "./cgroup.ts"
import type { Cgroups } from "./cgroups.ts"
import { create } from "./create.ts"
import { cgroupError, isFileError } from "./file-error.ts"
import { readIfThere } from "./files.ts"
import { type Base, findBase } from "./find-base.ts"
import { judgeAbilities } from "./held.ts"
import { chooseHierarchies, type Hierarchy } from "./hierarchy.ts"
import { canReclaim } from "./reclaim.ts"

export interface CgroupsOptions {
  /** The installation's group, the parent of its sandboxes' cgroups; it exists while one of them does. */
  readonly group: string
  /** The file that lists the mounts. */
  readonly procMounts?: string
  /** The file that lists the cgroups of the server itself. */
  readonly procCgroup?: string
}

/**
 * Finds out once what this host's cgroups can do, by trying it. A host where nothing can be done is no error: `held`
 * then says why of each ability.
 */
export const openCgroups = async (
  { group, procMounts = "/proc/self/mounts", procCgroup = "/proc/self/cgroup" }: CgroupsOptions,
  signal: AbortSignal,
): Promise<Cgroups> => {
  const mounts = parseCgroupMounts(await readFile(procMounts, "utf8"))
  const membership = parseMembership((await readIfThere(procCgroup)) ?? "")
  const bases: Base[] = []
  const refused = new Map<Hierarchy, string>()
  for (const hierarchy of chooseHierarchies(mounts, await readV2Controllers(mounts))) {
    signal.throwIfAborted()
    const found = await findBase(hierarchy, membership.get(membershipKey(hierarchy)), group)
    if ("why" in found) refused.set(hierarchy, found.why)
    else bases.push(found)
  }
  const open = (sandbox: SandboxId) => cgroupOf(bases, { group, sandbox })
  return {
    mode: mounts.mode,
    held: judgeAbilities(mounts, bases, refused),
    canReclaim: bases.some(({ hierarchy: { version }, controllers }) =>
      canReclaim({ version, controllers }),
    ),
    open,
    create: async (sandbox, limits) => {
      const cgroup = open(sandbox)
      await create(bases, { sandbox, cgroup, limits })
      return cgroup
    },
    list: () => listSandboxes(bases),
  }
}

/** /proc/self/cgroup names a v1 hierarchy by its controllers, and the v2 hierarchy by none. */
const membershipKey = ({ version, controllers }: Hierarchy): string =>
  version === 2 ? "" : ([...controllers][0] ?? "")

const readV2Controllers = async ({ v2 }: CgroupMounts): Promise<string> =>
  v2 === undefined ? "" : ((await readIfThere(join(v2, "cgroup.controllers"))) ?? "")

const listSandboxes = async (bases: readonly Base[]): Promise<SandboxId[]> => {
  const names = await Promise.all(bases.map(({ group }) => namesIn(group)))
  const ids = names.flat().map((name) => SandboxId.safeParse(name))
  return [...new Set(ids.flatMap((id) => (id.success ? [id.data] : [])))].sort()
}

const namesIn = async (group: string): Promise<string[]> => {
  try {
    return await readdir(group)
  } catch (error) {
    if (isFileError(error, "ENOENT", "ENODEV")) return []
    throw cgroupError(error, { action: "list the cgroups", path: group })
  }
}
