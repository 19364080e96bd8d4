import { lstatSync } from "node:fs"
import { join } from "node:path"

/** The kind of object at a path below a directory, without following a link on the way. */
export type Found =
  | { readonly kind: "directory" }
  | { readonly kind: "absent" }
  /** A link, a file or a device, at the path or on the way to it. */
  | { readonly kind: "other"; readonly at: string }

export const descend = (root: string, path: string): Found => {
  let at = root
  for (const part of path.split("/").filter((part) => part !== "")) {
    at = join(at, part)
    const seen = lstatSync(at, { throwIfNoEntry: false })
    if (seen === undefined) return { kind: "absent" }
    if (!seen.isDirectory()) return { kind: "other", at }
  }
  return { kind: "directory" }
}
