import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { ToolboxId } from "@berth/protocol/toolbox"

/**
 * The paths of toolboxes, under one root:
 *
 * ```
 * tb-…/                complete toolboxes, each with its manifest.json
 * seals/tb-….json      how a toolbox looked when its contents were last compared
 * incoming-…/          trees in the making: the name says by whom
 * outgoing-…/          trees on their way out
 * changed-tb-…-…/      trees that were not what they should be: sandboxes may still have them
 * ```
 *
 * All trees lie in one directory, so that a finished tree moves by a rename within it: that needs no right
 * to write in the tree itself.
 */
export interface Layout {
  readonly root: string
  readonly seals: string
  toolbox(id: ToolboxId): string
  seal(id: ToolboxId): string
  incoming(owner: string): string
  outgoing(owner: string): string
  changed(id: ToolboxId): string
}

export const layoutAt = (root: string): Layout => {
  const seals = join(root, "seals")
  return {
    root,
    seals,
    toolbox: (id) => join(root, id),
    seal: (id) => join(seals, `${id}.json`),
    incoming: (owner) => join(root, `incoming-${owner}-${unique()}`),
    outgoing: (owner) => join(root, `outgoing-${owner}-${unique()}`),
    changed: (id) => join(root, `changed-${id}-${unique()}`),
  }
}

const unique = () => crypto.randomUUID().slice(0, 8)

/** The kind of a name in the root; undefined if it is not ours. */
export type Found =
  | { readonly kind: "toolbox"; readonly id: ToolboxId }
  | { readonly kind: "changed"; readonly id: ToolboxId }
  /** A tree in the making or on its way out, by the process of this name. */
  | { readonly kind: "passing"; readonly owner: string }

export const parseName = (name: string): Found | undefined => {
  const id = ToolboxId.safeParse(name)
  if (id.success) return { kind: "toolbox", id: id.data }
  const changed = /^changed-(tb-[0-9a-f]{40})-/.exec(name)?.[1]
  if (changed !== undefined) return { kind: "changed", id: ToolboxId.parse(changed) }
  const owner = /^(?:incoming|outgoing)-(.+)-[0-9a-f]{8}$/.exec(name)?.[1]
  return owner === undefined ? undefined : { kind: "passing", owner }
}

/** The names in a directory, which may not exist yet. */
export const namesIn = async (directory: string): Promise<string[]> => {
  try {
    return await readdir(directory)
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code === "ENOENT") return []
    throw thrown
  }
}
