import { createHash } from "node:crypto"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { TOOLBOX_MANIFEST, ToolboxId, ToolboxManifest } from "@berth/protocol/toolbox"
import { pathsOf, staysInside } from "./links.ts"

/** The id that a manifest must have: made from all its other fields. */
export const idOf = ({ format, arch, entries, files }: Omit<ToolboxManifest, "id">): ToolboxId => {
  const said = [
    format,
    arch,
    entries.map(({ name, version, main }) => [name, version, main]),
    files.map((file) =>
      file.kind === "file"
        ? [file.path, file.mode, file.bytes, file.sha256]
        : [file.path, file.target],
    ),
  ]
  const digest = createHash("sha256").update(JSON.stringify(said)).digest("hex")
  return ToolboxId.parse(`tb-${digest.slice(0, ID_LETTERS)}`)
}

/** The length of an id, 160 bits: nobody can find a second content for one. */
const ID_LETTERS = 40

export const renderManifest = (manifest: ToolboxManifest): string => `${JSON.stringify(manifest)}\n`

/** Reads the manifest of a tree that must have this id, or says why it cannot be trusted. */
export const readManifest = async (
  tree: string,
  id: ToolboxId,
): Promise<{ readonly manifest: ToolboxManifest } | { readonly distrust: string }> => {
  let manifest: ToolboxManifest
  try {
    manifest = ToolboxManifest.parse(
      JSON.parse(await readFile(join(tree, TOOLBOX_MANIFEST), "utf8")),
    )
  } catch (thrown) {
    return { distrust: `cannot be read: ${(thrown as Error).message}` }
  }
  const distrust = lieIn(manifest, id)
  return distrust === undefined ? { manifest } : { distrust }
}

/** A statement of a manifest that cannot be true; undefined if there is none. */
const lieIn = (manifest: ToolboxManifest, id: ToolboxId): string | undefined => {
  const { entries, files } = manifest
  if (manifest.id !== id) return `is that of ${manifest.id}`
  const made = idOf(manifest)
  if (made !== id) return `lists what would be ${made}`
  const paths = pathsOf(files)
  for (const { name, main } of entries) {
    const file = files.find(({ path }) => path === main)
    if (file?.kind !== "file") return `has no file ${main} for ${name}`
    if (file.bytes === 0) return `has an empty file ${main} for ${name}`
  }
  const stray = files.find((file) => file.kind === "link" && !staysInside(file, paths))
  return stray && `has a link that leads out of the tree: ${stray.path}`
}
