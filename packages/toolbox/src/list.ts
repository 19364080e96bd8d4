import { stat } from "node:fs/promises"
import { join } from "node:path"
import { TOOLBOX_MANIFEST, type ToolboxId, type ToolboxSummary } from "@berth/protocol/toolbox"
import type { Call, Context } from "./context.ts"
import { namesIn, parseName } from "./layout.ts"
import { readManifest } from "./manifest.ts"
import { sealHolds } from "./seal.ts"

/** The ids of the existing toolboxes. */
export const listIds = async ({ layout }: Context): Promise<ToolboxId[]> => {
  const names = await namesIn(layout.root)
  return names.flatMap((name) => {
    const found = parseName(name)
    return found?.kind === "toolbox" ? [found.id] : []
  })
}

/** Lists the existing toolboxes, newest first, without reading their contents. */
export const list = async (context: Context, call: Call): Promise<ToolboxSummary[]> => {
  const summaries: ToolboxSummary[] = []
  for (const id of await listIds(context)) summaries.push(await summarize(context, id, call))
  return summaries.sort((one, other) => ((other.builtAt ?? "") < (one.builtAt ?? "") ? -1 : 1))
}

const summarize = async (
  { layout }: Context,
  id: ToolboxId,
  { signal }: Call,
): Promise<ToolboxSummary> => {
  const directory = layout.toolbox(id)
  const read = await readManifest(directory, id)
  if ("distrust" in read)
    return { id, directory, status: "damaged", builtAt: null, entries: [], files: 0, bytes: 0 }
  const { entries, files } = read.manifest
  const bytes = files.reduce((sum, file) => sum + (file.kind === "file" ? file.bytes : 0), 0)
  const builtAt = (await stat(join(directory, TOOLBOX_MANIFEST))).mtime.toISOString()
  const status = (await sealHolds(layout, id, signal)) ? "intact" : "unchecked"
  return { id, directory, status, builtAt, entries, files: files.length, bytes }
}
