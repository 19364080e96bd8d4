import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { Cgroup, CgroupLimits } from "./cgroups.ts"
import { cgroupError, isFileError } from "./file-error.ts"
import { makeDirectory, removeIfEmpty } from "./files.ts"
import type { Base } from "./find-base.ts"
import { handDown } from "./hand-on.ts"
import { HANDED_ON } from "./hierarchy.ts"

/**
 * The most attempts to make the group. It goes with its last sandbox, so another sandbox's removal can take it away in
 * between.
 */
const GROUP_ATTEMPTS = 100

/**
 * Makes a sandbox's cgroup in every hierarchy and sets its limits, before anything can run in it. A failure removes
 * what this call made, and nothing that was there before.
 */
export const create = async (
  bases: readonly Base[],
  { sandbox, cgroup, limits }: { sandbox: SandboxId; cgroup: Cgroup; limits: CgroupLimits },
): Promise<void> => {
  const made: Base[] = []
  try {
    const outcomes = await Promise.allSettled(
      bases.map(async (base) => {
        if (await makeCgroup(base, sandbox)) made.push(base)
      }),
    )
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason
    await cgroup.setLimits(limits)
  } catch (error) {
    await Promise.all(made.map((base) => unmakeCgroup(base, sandbox)))
    throw error
  }
}

/** Makes a sandbox's cgroup in one hierarchy. Returns whether this call made it. */
const makeCgroup = async (base: Base, sandbox: SandboxId): Promise<boolean> => {
  const directory = join(base.group, sandbox)
  try {
    const made = await makeInGroup(base, directory)
    if (base.hierarchy.version === 2) {
      await handDown(
        base,
        [...base.controllers].filter((it) => HANDED_ON.has(it)),
      )
    }
    return made
  } catch (error) {
    throw cgroupError(error, { action: "make a cgroup", path: directory })
  }
}

const makeInGroup = async (base: Base, directory: string): Promise<boolean> => {
  for (let attempt = 0; attempt < GROUP_ATTEMPTS; attempt++) {
    try {
      return await makeDirectory(directory)
    } catch (error) {
      if (!isFileError(error, "ENOENT", "ENODEV")) throw error
    }
    await makeDirectory(base.group)
  }
  throw new BerthError(
    "backend.cgroups_unavailable",
    `${base.group} was removed ${GROUP_ATTEMPTS} times while a cgroup was being made in it`,
    { details: { path: base.group } },
  )
}

/** Removes a cgroup that nothing has run in. */
const unmakeCgroup = async (base: Base, sandbox: SandboxId): Promise<void> => {
  await removeIfEmpty(join(base.group, sandbox))
  await removeIfEmpty(base.group)
}
