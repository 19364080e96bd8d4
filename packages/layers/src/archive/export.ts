import { relative } from "node:path"
import type { Writable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { constants, createZstdCompress } from "node:zlib"
import type { LayerId, Slug } from "@berth/protocol/ids"
import { TREE } from "../io/layout.ts"
import { startProgram } from "../io/programs.ts"
import { stackBelow } from "../stacks/layer.ts"
import { whileKeeping } from "../stacks/reading.ts"
import type { Call, Context } from "../store/context.ts"
import { tarOutput } from "../tar/tar-output.ts"
import type { TarEntry } from "../tar/tar-read.ts"
import { writeTar } from "../tar/tar-write.ts"
import { seeingMerged } from "../tops/merged.ts"
import { MOUNT_ENV } from "../tops/mount.ts"
import { admit, countWithin } from "./admit.ts"
import { inside } from "./ids.ts"
import { manifestEntry } from "./manifest.ts"
import { xattrsOut } from "./xattrs.ts"

/** The files that a frozen layer shows with all below it, under their name in the archive. */
export interface ExportedTree {
  readonly name: Slug
  readonly layer: LayerId
}

export interface ExportOptions extends Call {
  /** Whether the files have been through a whole boot. */
  readonly isBooted: boolean
}

const ZSTD_PARAMS = {
  /** Fast, and saves most of what a stronger level saves. */
  [constants.ZSTD_c_compressionLevel]: 3,
  [constants.ZSTD_c_checksumFlag]: 1,
}

/** An export has no limits: everything of a store may be in an archive. The limits are for archives that come in. */
const uncounted = countWithin({
  maxEntries: Number.POSITIVE_INFINITY,
  maxBytes: Number.POSITIVE_INFINITY,
  maxNameBytes: Number.POSITIVE_INFINITY,
})

/**
 * Writes the files of stacks as tar with zstd, as a sandbox sees them: nothing of layers, and owners by the ids of the
 * inside, so that any installation can take the archive. Sockets, on which nobody listens, are left out.
 */
export const exportTrees = (
  context: Context,
  trees: readonly ExportedTree[],
  to: Writable,
  { isBooted, signal }: ExportOptions,
): Promise<void> => {
  const stacks = () => Promise.all(trees.map(({ layer }) => stackBelow(context, layer)))
  return whileKeeping(
    context,
    async () => (await stacks()).flat(),
    async () => {
      const names = trees.map(({ name }) => name)
      const all = archived(context, trees, manifestOf(names, isBooted), signal)
      const zstd = createZstdCompress({ params: ZSTD_PARAMS })
      await pipeline(writeTar(all), zstd, to, signal ? { signal } : {})
    },
  )
}

const manifestOf = (trees: Slug[], isBooted: boolean): TarEntry =>
  manifestEntry({
    kind: "berth.workspace",
    version: 1,
    trees,
    isBooted,
    createdAt: new Date().toISOString(),
  })

async function* archived(
  context: Context,
  trees: readonly ExportedTree[],
  manifest: TarEntry,
  signal: AbortSignal | undefined,
): AsyncGenerator<TarEntry> {
  yield manifest
  for (const tree of trees) yield* merged(context, tree, signal)
}

async function* merged(
  context: Context,
  { name, layer }: ExportedTree,
  signal: AbortSignal | undefined,
): AsyncGenerator<TarEntry> {
  const { idBase, layout } = context
  const { directory, tree } = layout.layer(layer)
  const command = [
    ...["tar", "-C", relative(layout.root, directory), "-c", "--format=pax"],
    ...["--pax-option=delete=atime,delete=ctime", "--sparse", "--numeric-owner"],
    ...["--xattrs", "--xattrs-include=*", "-f", "-", TREE],
  ]
  const layers = await stackBelow(context, layer)
  const tar = startProgram(seeingMerged(context, layers, tree, command), {
    signal,
    on: directory,
    cwd: layout.root,
    env: MOUNT_ENV,
  })
  tar.stdin.end()
  const translation = {
    root: TREE,
    newRoot: name,
    owner: (owner: number) => inside(owner, idBase),
    xattrs: (pax: TarEntry["pax"]) => xattrsOut(pax, idBase),
  }
  try {
    yield* admit(tarOutput(tar), translation, uncounted)
  } finally {
    tar.stop()
  }
}
