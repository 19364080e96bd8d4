import { promisify } from "node:util"
import { constants, zstdCompress } from "node:zlib"
import { newId } from "@berth/protocol/ids"
import { type ArchiveManifest, fileEntry, manifestEntry } from "../archive/manifest.ts"
import type { TarEntry } from "../archive/tar-read.ts"
import { writeTar } from "../archive/tar-write.ts"

/** An archive as someone else might make it: whatever entries are given, after a good description. */
export const makeArchive = async (
  entries: readonly TarEntry[],
  manifest: Partial<ArchiveManifest> = {},
): Promise<Buffer> => {
  const described: ArchiveManifest = {
    version: 1,
    id: newId.layer(),
    flavour: "trusted",
    parents: [],
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
