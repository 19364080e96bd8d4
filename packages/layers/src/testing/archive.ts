import { createWriteStream } from "node:fs"
import { promisify } from "node:util"
import { constants, zstdCompress } from "node:zlib"
import { type LayerId, Slug } from "@berth/protocol/ids"
import type { ImportOptions } from "../archive/import.ts"
import { type ArchiveManifest, fileEntry, manifestEntry } from "../archive/manifest.ts"
import type { Layers } from "../layers.ts"
import type { Pinned } from "../pins/pin.ts"
import type { TarEntry } from "../tar/tar-read.ts"
import { writeTar } from "../tar/tar-write.ts"

/** The names of the trees in the archives of tests. */
export const TREES: readonly Slug[] = [Slug.parse("tree")]

/** Exports the files that a layer shows to a file. */
export const exportTo = (layers: Layers, layer: LayerId, file: string): Promise<void> => {
  const trees = TREES.map((name) => ({ name, layer }))
  return layers.exportTrees(trees, createWriteStream(file), { isBooted: true })
}

/** Imports the one layer of an archive. */
export const importFrom = async (
  layers: Layers,
  from: AsyncIterable<Buffer>,
  options: Partial<ImportOptions> = {},
): Promise<Pinned> => {
  const imported = await layers.importTrees(from, TREES, { reason: "test", ...options })
  const [pinned] = imported.layers
  if (pinned === undefined) throw new Error("no layer was imported")
  return pinned
}

/** Makes an archive as somebody else might: any entries, after a valid description. */
export const makeArchive = async (
  entries: readonly TarEntry[],
  manifest: Partial<ArchiveManifest> = {},
): Promise<Buffer> => {
  const described: ArchiveManifest = {
    kind: "berth.workspace",
    version: 1,
    trees: [...TREES],
    isBooted: true,
    createdAt: new Date().toISOString(),
    ...manifest,
  }
  return promisify(zstdCompress)(await tarOf([manifestEntry(described), ...entries]), {
    params: { [constants.ZSTD_c_checksumFlag]: 1 },
  })
}

export const tarOf = async (entries: readonly TarEntry[]): Promise<Buffer> => {
  const chunks: Buffer[] = []
  for await (const chunk of writeTar(each(entries))) chunks.push(chunk)
  return Buffer.concat(chunks)
}

export async function* each<Item>(items: Iterable<Item>): AsyncGenerator<Item> {
  yield* items
}

export const directory = (path: string): TarEntry => ({
  ...fileEntry(path, Buffer.alloc(0)),
  type: "5",
  mode: 0o755,
})

export const file = (path: string, contents = ""): TarEntry =>
  fileEntry(path, Buffer.from(contents))

export const link = (path: string, linkPath: string, type: "1" | "2"): TarEntry => ({
  ...file(path),
  type,
  linkPath,
})

export const withXattr = (entry: TarEntry, name: string, value: string | Buffer): TarEntry => ({
  ...entry,
  pax: new Map([...entry.pax, [`SCHILY.xattr.${name}`, Buffer.from(value)]]),
})
