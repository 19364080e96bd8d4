import { Slug } from "@berth/protocol/ids"
import { z } from "zod"
import { refuse } from "../tar/refuse.ts"
import type { TarEntry } from "../tar/tar-read.ts"

/** The name of an archive's first entry. */
const MANIFEST = "berth.json"

const MAX_MANIFEST_BYTES = 16 * 1024

/**
 * The description of an archive. It says nothing of how a sandbox is made (network, keys, ports of the host, system):
 * an archive comes from anybody, and the importer decides that.
 */
export const ArchiveManifest = z.strictObject({
  kind: z.literal("berth.workspace"),
  version: z.literal(1),
  /** The trees in their order; each is a directory of that name. */
  trees: z.array(Slug).max(16),
  /** Whether the files have been through a whole boot. */
  isBooted: z.boolean(),
  createdAt: z.iso.datetime(),
})
export type ArchiveManifest = z.infer<typeof ArchiveManifest>

/** Reads the description, which must name exactly these trees. */
export const readManifest = async (
  entry: TarEntry | undefined,
  trees: readonly Slug[],
): Promise<ArchiveManifest> => {
  if (entry?.path !== MANIFEST || entry.type !== "0") {
    return refuse("it does not begin with the description of a workspace", entry?.path ?? "")
  }
  if (entry.bodyBytes > MAX_MANIFEST_BYTES) return refuse("its description is too long", MANIFEST)
  const chunks: Buffer[] = []
  for await (const chunk of entry.body) chunks.push(chunk)
  const { data } = ArchiveManifest.safeParse(parsed(Buffer.concat(chunks).toString("utf8")))
  if (data === undefined) return refuse("its description cannot be read", MANIFEST)
  if (data.trees.join() !== trees.join()) return refuse("it has other trees", MANIFEST)
  return data
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const manifestEntry = (manifest: ArchiveManifest): TarEntry =>
  fileEntry(MANIFEST, Buffer.from(JSON.stringify(manifest)))

/** Makes a plain file of root's. */
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
