import { join } from "node:path"
import { isFileError } from "./file-error.ts"
import { writeValue } from "./files.ts"

/**
 * Hands controllers on to a cgroup's children. In v2 a cgroup has only the controllers that its parent hands on, and of
 * cgroups that hold processes only the root may hand on.
 */
export const handOn = (parent: string, controllers: Iterable<string>): Promise<void> => {
  const wanted = [...controllers].map((controller) => `+${controller}`)
  if (wanted.length === 0) return Promise.resolve()
  return writeValue(join(parent, "cgroup.subtree_control"), wanted.join(" "))
}

/** Hands controllers on from the base to the group and from there to the group's children. */
export const handDown = async (
  { base, group }: { base: string; group: string },
  controllers: readonly string[],
): Promise<void> => {
  try {
    await handOn(group, controllers)
  } catch (error) {
    // The group itself lacks the controllers: it is new, or its maker ended before this step.
    if (!isFileError(error, "ENOENT")) throw error
    await handOn(base, controllers)
    await handOn(group, controllers)
  }
}
