import { pipeline } from "node:stream/promises"
import { constants, createZstdDecompress } from "node:zlib"
import { newId, type Slug } from "@berth/protocol/ids"
import { hasCode } from "../io/io-error.ts"
import { TREE } from "../io/layout.ts"
import { startProgram } from "../io/programs.ts"
import { type Pinned, writePin } from "../pins/pin.ts"
import { inDrafts, install, writeLayer } from "../stacks/drafts.ts"
import { type Call, type Context, STORE } from "../store/context.ts"
import { refuse } from "../tar/refuse.ts"
import { readTar, type TarEntry } from "../tar/tar-read.ts"
import { writeTar } from "../tar/tar-write.ts"
import { type ArchiveLimits, admit, countWithin, DEFAULT_LIMITS, tooLarge } from "./admit.ts"
import { outside } from "./ids.ts"
import { readManifest } from "./manifest.ts"
import { splitTrees } from "./split-trees.ts"
import { xattrsIn } from "./xattrs.ts"

export interface ImportOptions extends Call {
  /** The reason why the layers are kept, for people. */
  readonly reason: string
  readonly limits?: Partial<ArchiveLimits>
  /** Called again and again while files are unpacked. Rejects where the disk has no room for more. */
  readonly assertRoom?: () => Promise<void>
}

export interface Imported {
  /** A layer for each tree, in their order. The pins end with this process, unless they are ended before. */
  readonly layers: readonly Pinned[]
  /** Whether the files have been through a whole boot. */
  readonly isBooted: boolean
}

/** The window of zstd's strongest ordinary level: the most memory that unpacking may ask for. */
const MAX_WINDOW_LOG = 27

/**
 * Takes these trees from an archive as layers of their own, under new ids and without parents. Every entry is checked
 * and written anew on its way to tar, which unpacks nothing else.
 */
export const importTrees = async (
  context: Context,
  from: AsyncIterable<Buffer>,
  names: readonly Slug[],
  { signal, reason, limits = {}, assertRoom = async () => {} }: ImportOptions,
): Promise<Imported> => {
  const { at } = context
  const most: ArchiveLimits = { ...DEFAULT_LIMITS, ...limits }
  const over = new AbortController()
  const either = AbortSignal.any([over.signal, ...(signal ? [signal] : [])])
  try {
    const entries = readTar(bounded(unpacked(from, either), most, assertRoom))
    const { isBooted } = await readManifest((await entries.next()).value ?? undefined, names)
    const trees = splitTrees(entries)
    const count = countWithin(most)
    const wanted = names.map((name) => ({ name, id: newId.layer() }))
    const layers = await inDrafts(
      context,
      wanted,
      async (drafted) => {
        await at("import.prepared")
        for (const { name, draft } of drafted)
          await unpack(admitted(context, trees.of(name), name, count), draft.directory, signal)
        trees.assertEnded()
        await at("import.unpacked")
        for (const { id, draft } of drafted)
          await writeLayer(context, { id, parents: [], origin: "import" }, draft, signal)
        await at("import.described")
        return context.serially(STORE, async () => {
          for (const { id, draft } of drafted) await install(context, draft.directory, id)
          await at("import.renamed")
          const pinned: Pinned[] = []
          for (const { id } of drafted)
            pinned.push({ layer: id, pin: await writePin(context, id, reason) })
          await at("import.pinned")
          return pinned
        })
      },
      signal,
    )
    return { layers, isBooted }
  } finally {
    // Ends the stream: nobody reads the archive any more.
    over.abort()
  }
}

const admitted = (
  { idBase }: Context,
  entries: AsyncIterable<TarEntry>,
  name: Slug,
  count: ReturnType<typeof countWithin>,
): AsyncGenerator<TarEntry> => {
  const translation = {
    root: name,
    newRoot: TREE,
    owner: (id: number) => outside(id, idBase),
    xattrs: (pax: TarEntry["pax"], entry: string) => xattrsIn(pax, idBase, entry),
  }
  return admit(entries, translation, count)
}

const unpack = async (
  entries: AsyncIterable<TarEntry>,
  directory: string,
  signal: AbortSignal | undefined,
): Promise<void> => {
  const tar = startProgram(
    [
      ...(["tar", "-x", "-p", "--same-owner", "--numeric-owner", "--keep-old-files"] as const),
      ...["--delay-directory-restore", "--xattrs", "--xattrs-include=*", "-f", "-"],
    ],
    { signal, on: directory, cwd: directory },
  )
  tar.stdout.resume()
  try {
    await pipeline(writeTar(entries), tar.stdin, signal ? { signal } : {})
    await tar.ended
  } catch (thrown) {
    // If tar ended first, its own words say more than the broken pipe.
    if (hasCode(thrown, "EPIPE")) await tar.ended
    throw thrown
  } finally {
    // After this returns, nothing may write into the draft any more.
    tar.stop()
    await tar.ended.catch(() => {})
  }
}

/** Room for the headers of an entry: its name, a link's target and a few attributes. */
const HEADER_BYTES = 8 * 1024
/** Room for the description, and for the little that archives have beside their contents. */
const SPARE_BYTES = 1024 * 1024

/** The amount of data between two looks at the disk. */
const LOOK_EVERY_BYTES = 16 * 1024 * 1024

/** Ends an archive that unpacks to more than its limits can need, whatever it is made of: headers, too, pack well. */
async function* bounded(
  chunks: AsyncIterable<Buffer>,
  limits: ArchiveLimits,
  assertRoom: () => Promise<void>,
): AsyncGenerator<Buffer> {
  const most = SPARE_BYTES + limits.maxBytes + limits.maxEntries * HEADER_BYTES
  let bytes = 0
  let lookAt = 0
  for await (const chunk of chunks) {
    if (bytes >= lookAt) {
      await assertRoom()
      lookAt = bytes + LOOK_EVERY_BYTES
    }
    bytes += chunk.length
    if (bytes > most) tooLarge("maxBytes", bytes, limits)
    yield chunk
  }
}

async function* unpacked(from: AsyncIterable<Buffer>, signal: AbortSignal): AsyncGenerator<Buffer> {
  const zstd = createZstdDecompress({
    params: { [constants.ZSTD_d_windowLogMax]: MAX_WINDOW_LOG },
  })
  const feeding = pipeline(from, zstd, { signal })
  feeding.catch(() => {})
  try {
    for await (const chunk of zstd) yield chunk
    await feeding
  } catch (thrown) {
    signal.throwIfAborted()
    if (!/^Z(STD)?_/.test(String((thrown as NodeJS.ErrnoException).code))) throw thrown
    refuse(`it is not whole: ${(thrown as Error).message}`, "")
  }
}
