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

export type ReadManifest =
  | { readonly manifest: ToolboxManifest }
  /** Why the manifest cannot be trusted. */
  | { readonly distrust: string }

/** Reads the manifest of a tree that must have this id. */
export const readManifest = async (tree: string, id: ToolboxId): Promise<ReadManifest> => {
  const read = await readWith(tree, (json) => ToolboxManifest.parse(json))
  if ("distrust" in read) return read
  const distrust = lieIn(read.manifest, id)
  return distrust === undefined ? read : { distrust }
}

/** Reads a manifest that is as it was when all of it was checked: thousands of files are not checked again. */
export const readSealedManifest = (tree: string): Promise<ReadManifest> =>
  readWith(tree, (json) => json as ToolboxManifest)

const readWith = async (
  tree: string,
  parse: (json: unknown) => ToolboxManifest,
): Promise<ReadManifest> => {
  try {
    const text = await readFile(join(tree, TOOLBOX_MANIFEST), "utf8")
    return { manifest: parse(JSON.parse(text)) }
  } catch (thrown) {
    return { distrust: `cannot be read: ${(thrown as Error).message}` }
  }
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
