import { open, rm } from "node:fs/promises"
import { join } from "node:path"
import { Slug } from "@berth/protocol/ids"
import { ioError } from "../io/io-error.ts"
import { namesIn } from "../io/names-in.ts"
import type { Context } from "../store/context.ts"

/** The workspaces that have stacks, and those that are noted as having no known owner. */
export const findOwnerless = async ({ layout }: Context) => ({
  stacked: await slugsIn(layout.stacks),
  noted: await slugsIn(layout.ownerless),
})

/** Whether a workspace has any stack. A crash may have left its directory without one. */
export const hasStacks = async ({ layout }: Context, workspace: Slug): Promise<boolean> =>
  (await namesIn(join(layout.stacks, workspace))).some((name) => name.endsWith(".json"))

/** Notes on the disk that no owner is known of a workspace's stacks. Returns the time since when that is so. */
export const noteOwnerless = async ({ layout }: Context, workspace: Slug): Promise<number> => {
  const file = layout.ownerlessNote(workspace)
  try {
    await using handle = await open(file, "a", 0o600)
    return (await handle.stat()).mtimeMs
  } catch (thrown) {
    throw ioError(thrown, file)
  }
}

/** Removes the note that no owner is known. */
export const noteOwned = ({ layout }: Context, workspace: Slug): Promise<void> =>
  rm(layout.ownerlessNote(workspace), { force: true })

const slugsIn = async (directory: string): Promise<readonly Slug[]> =>
  (await namesIn(directory)).filter((name) => Slug.safeParse(name).success) as Slug[]
