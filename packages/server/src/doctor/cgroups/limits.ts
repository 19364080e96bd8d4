import { randomUUID } from "node:crypto"
import { constants } from "node:fs"
import { access, mkdir, readFile, rmdir, writeFile } from "node:fs/promises"
import { join } from "node:path"
import type { CgroupMembership } from "@berth/host/cgroups/membership"
import type { CgroupMounts } from "@berth/host/cgroups/mounts"

/** The controllers that bound or stop a sandbox's processes. */
export const LIMITS = ["memory", "pids", "cpu", "freezer"] as const
export type Limit = (typeof LIMITS)[number]

/**
 * A trial of a limit: a file of a cgroup, a value to write, and the text that it then reads. The values disturb no
 * empty cgroup.
 */
interface Trial {
  readonly file: string
  readonly value: string
  readonly reads: string
}

const MEMORY_TRIAL_BYTES = `${64 * 1024 * 1024}`

const V1_TRIALS: Record<Limit, Trial> = {
  memory: {
    file: "memory.limit_in_bytes",
    value: MEMORY_TRIAL_BYTES,
    reads: MEMORY_TRIAL_BYTES,
  },
  pids: { file: "pids.max", value: "64", reads: "64" },
  cpu: { file: "cpu.cfs_quota_us", value: "50000", reads: "50000" },
  freezer: { file: "freezer.state", value: "FROZEN", reads: "FROZEN" },
}

const V2_TRIALS: Record<Limit, Trial> = {
  memory: { file: "memory.max", value: MEMORY_TRIAL_BYTES, reads: MEMORY_TRIAL_BYTES },
  pids: { file: "pids.max", value: "64", reads: "64" },
  cpu: { file: "cpu.max", value: "50000 100000", reads: "50000 100000" },
  freezer: { file: "cgroup.freeze", value: "1", reads: "1" },
}

/** The limits that hold on this host, each tried on a cgroup that is made for it and removed again. */
export const usableLimits = async (
  mounts: CgroupMounts,
  membership: CgroupMembership,
): Promise<Limit[]> => {
  const usable: Limit[] = []
  for (const limit of LIMITS) {
    if (await holds(limit, mounts, membership)) usable.push(limit)
  }
  return usable
}

const holds = async (limit: Limit, mounts: CgroupMounts, membership: CgroupMembership) => {
  const v1 = mounts.v1.get(limit)
  if (v1 !== undefined) {
    return inChildCgroup(v1, membership.get(limit), (child) => accepts(child, V1_TRIALS[limit]))
  }
  if (mounts.v2 === undefined) return false
  return inChildCgroup(
    mounts.v2,
    membership.get(""),
    async (child, parent) =>
      (await accepts(child, V2_TRIALS[limit])) || canBeEnabled(limit, parent),
  )
}

/**
 * Makes a cgroup at the top of the hierarchy, where a server with the rights puts its own, or else below this process's
 * own; runs a trial in it, and removes it.
 */
const inChildCgroup = async (
  mount: string,
  own: string | undefined,
  attempt: (child: string, parent: string) => Promise<boolean>,
): Promise<boolean> => {
  const parents = own === undefined ? [mount] : [mount, join(mount, own)]
  for (const parent of parents) {
    const child = join(parent, `berth-doctor-${randomUUID()}`)
    if (!(await succeeds(mkdir(child)))) continue
    try {
      return await attempt(child, parent)
    } finally {
      await rmdir(child)
    }
  }
  return false
}

const accepts = async (child: string, { file, value, reads }: Trial): Promise<boolean> => {
  try {
    await writeFile(join(child, file), value, { flag: "r+" })
    return (await readFile(join(child, file), "utf8")).trim() === reads
  } catch {
    return false
  }
}

/**
 * Whether a controller can be enabled for a child. In v2 a child only has the controllers that its parent hands on. The
 * root hands on more when asked; only the root may while it holds processes, and it is the one cgroup without
 * `cgroup.type`.
 */
const canBeEnabled = async (limit: Limit, parent: string): Promise<boolean> => {
  if (await succeeds(access(join(parent, "cgroup.type")))) return false
  if (!(await succeeds(access(join(parent, "cgroup.subtree_control"), constants.W_OK)))) {
    return false
  }
  const offered = await readFile(join(parent, "cgroup.controllers"), "utf8")
  return offered.trim().split(" ").includes(limit)
}

const succeeds = (attempt: Promise<unknown>): Promise<boolean> =>
  attempt.then(
    () => true,
    () => false,
  )
