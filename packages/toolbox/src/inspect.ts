import { lstat } from "node:fs/promises"
import type { ToolboxId, ToolboxManifest, ToolboxProblem } from "@berth/protocol/toolbox"
import { TOOLBOX_MANIFEST } from "@berth/protocol/toolbox"
import { compareTree } from "./compare.ts"
import type { Call, Context } from "./context.ts"
import { readManifest, readSealedManifest } from "./manifest.ts"
import { sealHolds, writeSeal } from "./seal.ts"

export type Inspected =
  | { readonly state: "absent" }
  | { readonly state: "intact"; readonly manifest: ToolboxManifest }
  | {
      readonly state: "changed"
      readonly problems: readonly ToolboxProblem[]
      /** The inode of the directory that was inspected: another one may have its name later. */
      readonly inode: bigint
      /** The manifest, if it could be read. */
      readonly manifest?: ToolboxManifest
    }

/**
 * Inspects whether a toolbox is what was built. The contents are compared if the seal does not hold, or if `thoroughly`
 * is set; when they are right, the seal is made anew.
 */
export const inspect = async (
  { layout }: Context,
  id: ToolboxId,
  { signal, thoroughly = false }: Call & { readonly thoroughly?: boolean },
): Promise<Inspected> => {
  const tree = layout.toolbox(id)
  const top = await lstat(tree, { bigint: true }).catch(() => undefined)
  if (top === undefined) return { state: "absent" }
  const { ino: inode } = top
  // A sealed manifest was compared when the seal was made.
  const sealed = !thoroughly && (await sealHolds(layout, id, signal))
  const read = sealed ? await readSealedManifest(tree) : await readManifest(tree, id)
  if ("distrust" in read) {
    const problem = { path: TOOLBOX_MANIFEST, problem: "manifest", found: read.distrust } as const
    return { state: "changed", problems: [problem], inode }
  }
  const { manifest } = read
  if (sealed) return { state: "intact", manifest }
  const problems = await compareTree(tree, manifest, { signal })
  if (problems.length > 0) return { state: "changed", problems, inode, manifest }
  await writeSeal(layout, id, { signal })
  return { state: "intact", manifest }
}
