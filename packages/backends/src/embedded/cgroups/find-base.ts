import { constants } from "node:fs"
import { access } from "node:fs/promises"
import { dirname, join } from "node:path"
import { isFileError } from "./file-error.ts"
import { makeDirectory, removeIfEmpty } from "./files.ts"
import { handDown } from "./hand-on.ts"
import { type Controller, HANDED_ON, type Hierarchy } from "./hierarchy.ts"

/** The place of the installation's group in one hierarchy. */
export interface Base {
  readonly hierarchy: Hierarchy
  /** The cgroup above the group, absolute. */
  readonly base: string
  /** The group: the parent of the sandboxes' cgroups. */
  readonly group: string
  /** The controllers that work in the sandboxes' cgroups. */
  readonly controllers: ReadonlySet<Controller>
  /** The reasons why the other controllers do not work. */
  readonly missing: ReadonlyMap<Controller, string>
}

/**
 * Finds a cgroup below which the group can be made, and tries there what works: at the top of the hierarchy, where root
 * may do it; else beside or below the server's own cgroup, which may be delegated to it. The first cgroup where
 * everything works wins, else the one where most works.
 * @param own the server's own cgroup in this hierarchy, as a path from its mount
 * @returns the words of the kernel where the group can be made nowhere
 */
export const findBase = async (
  hierarchy: Hierarchy,
  own: string | undefined,
  groupName: string,
): Promise<Base | { why: string }> => {
  let best: Base | undefined
  let why = ""
  for (const base of candidates(hierarchy, own)) {
    const found = await tryBase(hierarchy, base, groupName).catch((error: unknown) =>
      wordsOf(error),
    )
    if (typeof found === "string") {
      why ||= found
      continue
    }
    if (best === undefined || found.controllers.size > best.controllers.size) best = found
    if (best.missing.size === 0) break
  }
  return best ?? { why }
}

const candidates = ({ version, mount }: Hierarchy, own = "/"): string[] => {
  // A v2 cgroup that holds processes, as the server's own does, hands on no controllers: its parent may.
  const paths = version === 1 ? ["/", own] : ["/", dirname(own), own]
  return [...new Set(paths.map((path) => join(mount, path).replace(/\/$/, "")))]
}

const tryBase = async (hierarchy: Hierarchy, base: string, groupName: string): Promise<Base> => {
  const group = join(base, groupName)
  await makeDirectory(group)
  try {
    const missing = new Map<Controller, string>()
    for (const controller of hierarchy.controllers) {
      const why = await whyMissing(hierarchy, { base, group }, controller)
      if (why !== undefined) missing.set(controller, why)
    }
    const controllers = new Set([...hierarchy.controllers].filter((it) => !missing.has(it)))
    return { hierarchy, base, group, controllers, missing }
  } finally {
    await removeIfEmpty(group)
  }
}

const whyMissing = async (
  { version }: Hierarchy,
  place: { base: string; group: string },
  controller: Controller,
): Promise<string | undefined> => {
  if (version === 2 && HANDED_ON.has(controller)) {
    return handDown(place, [controller]).then(
      () => undefined,
      (error: unknown) => whyNotHandedOn(place.base, controller, error),
    )
  }
  const file = (version === 1 ? V1_FILES : V2_FILES)[controller] ?? ""
  return access(join(place.group, file), constants.W_OK).then(() => undefined, wordsOf)
}

const whyNotHandedOn = (base: string, controller: Controller, error: unknown): string => {
  const because = isFileError(error, "EBUSY") ? ", because it holds processes" : ""
  return `${base} does not hand the ${controller} controller on${because} (${wordsOf(error)})`
}

/** Files that show that a controller can be set, where the kernel is built or booted without parts of it. */
const V1_FILES: Readonly<Partial<Record<Controller, string>>> = {
  memory: "memory.limit_in_bytes",
  pids: "pids.max",
  cpu: "cpu.cfs_quota_us",
  freezer: "freezer.state",
}

const V2_FILES: Readonly<Partial<Record<Controller, string>>> = { freezer: "cgroup.freeze" }

const wordsOf = (thrown: unknown): string =>
  thrown instanceof Error ? thrown.message : String(thrown)
