import { LayerId } from "@berth/protocol/ids"
import { LayerFlavour } from "@berth/protocol/layer"
import { z } from "zod"
import { refuse } from "./refuse.ts"
import type { TarEntry } from "./tar-read.ts"

/** The first entry of an archive. */
export const MANIFEST = "layer.json"

/** A hundred times what a layer on the deepest stack needs. */
const MAX_MANIFEST_BYTES = 256 * 1024

/** What an archive says of its layer. Owners in it are as the sandbox sees them, so it names no range. */
export const ArchiveManifest = z.strictObject({
  version: z.literal(1),
  id: LayerId,
  flavour: LayerFlavour,
  /** Lowest first. The layer means something on exactly these. */
  parents: z.array(LayerId).max(1_000),
  createdAt: z.iso.datetime(),
})
export type ArchiveManifest = z.infer<typeof ArchiveManifest>

export const readManifest = async (entry: TarEntry | undefined): Promise<ArchiveManifest> => {
  if (entry?.path !== MANIFEST || entry.type !== "0") {
    return refuse("it does not begin with the description of a layer", entry?.path ?? "")
  }
  if (entry.bodyBytes > MAX_MANIFEST_BYTES) return refuse("its description is too long", MANIFEST)
  const chunks: Buffer[] = []
  for await (const chunk of entry.body) chunks.push(chunk)
  try {
    return ArchiveManifest.parse(JSON.parse(Buffer.concat(chunks).toString("utf8")))
  } catch {
    return refuse("its description cannot be read", MANIFEST)
  }
}

export const manifestEntry = (manifest: ArchiveManifest): TarEntry =>
  fileEntry(MANIFEST, Buffer.from(JSON.stringify(manifest)))

/** A plain file of root's. */
export const fileEntry = (path: string, contents: Buffer): TarEntry => ({
  path,
  type: "0",
  mode: 0o600,
  uid: 0,
  gid: 0,
  mtime: "0",
  linkPath: "",
  deviceMajor: 0,
  deviceMinor: 0,
  bodyBytes: contents.length,
  pax: new Map(),
  body: once(contents),
})

async function* once(contents: Buffer): AsyncGenerator<Buffer> {
  if (contents.length > 0) yield contents
}
