import { pipeline } from "node:stream/promises"
import { constants, createZstdDecompress } from "node:zlib"
import { BerthError } from "@berth/protocol/errors"
import { type Call, type Context, STORE } from "../context.ts"
import { describe, inDraft, install } from "../drafts.ts"
import { namesIn } from "../names-in.ts"
import { type Pinned, writePin } from "../pins/pin.ts"
import { startProgram } from "../programs.ts"
import { hasCode } from "../records/files.ts"
import { findLayer } from "../stacks/layer.ts"
import { type ArchiveLimits, admit, DEFAULT_LIMITS, tooLarge } from "./admit.ts"
import { outside } from "./ids.ts"
import { type ArchiveManifest, readManifest } from "./manifest.ts"
import { refuse } from "./refuse.ts"
import { readTar, type TarEntry } from "./tar-read.ts"
import { writeTar } from "./tar-write.ts"
import { xattrsIn } from "./xattrs.ts"

export interface ImportOptions extends Call {
  /** Why the layer is kept, for people. */
  readonly reason: string
  readonly limits?: Partial<ArchiveLimits>
}

/** What zstd may ask for to unpack: the window of its strongest ordinary level. */
const MAX_WINDOW_LOG = 27

/**
 * Takes a layer from an archive, under its own id, on the layers that it was made on; they come first. Every
 * entry is looked at and written anew on its way to tar, which unpacks nothing else.
 */
export const importLayer = async (
  context: Context,
  from: AsyncIterable<Buffer>,
  { signal, reason, limits = {} }: ImportOptions,
): Promise<Pinned> => {
  const { at } = context
  const most: ArchiveLimits = { ...DEFAULT_LIMITS, ...limits }
  const entries = readTar(atMost(unpacked(from, signal), most))
  const manifest = await readManifest((await entries.next()).value ?? undefined)
  await assertWelcome(context, manifest)
  const { id, parents } = manifest
  return inDraft(context, id, async (draft) => {
    await at("import.prepared")
    await unpack(context, entries, draft.directory, most, signal)
    await at("import.unpacked")
    await describe(context, { id, parents, origin: "import" }, draft, signal)
    await at("import.described")
    return context.serially(STORE, async () => {
      await assertWelcome(context, manifest)
      await install(context, draft.directory, id)
      await at("import.renamed")
      const pin = await writePin(context, id, reason)
      await at("import.pinned")
      return { layer: id, pin }
    })
  })
}

const unpack = async (
  { flavour, idBase }: Context,
  entries: AsyncIterable<TarEntry>,
  directory: string,
  limits: ArchiveLimits,
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
  const admitted = admit(
    entries,
    {
      owner: (id) => outside(id, idBase),
      xattrs: (pax, entry) => xattrsIn(pax, flavour, idBase, entry),
    },
    limits,
  )
  try {
    await pipeline(writeTar(admitted), tar.stdin, signal ? { signal } : {})
    await tar.ended
  } catch (thrown) {
    // If tar ended first, its own words say more than the broken pipe.
    if (hasCode(thrown, "EPIPE")) await tar.ended
    throw thrown
  } finally {
    // Nothing may write into the draft any more when this returns.
    tar.stop()
    await tar.ended.catch(() => {})
  }
}

/** Room for the headers of an entry: its name, a link's target and a few attributes. */
const HEADER_BYTES = 8 * 1024
/** For the description, and what little archives have beside their contents. */
const SPARE_BYTES = 1024 * 1024

/** Ends an archive that unpacks to more than its limits can need, whatever it is made of: headers, too, pack well. */
async function* atMost(
  chunks: AsyncIterable<Buffer>,
  limits: ArchiveLimits,
): AsyncGenerator<Buffer> {
  const room = SPARE_BYTES + limits.maxBytes + limits.maxEntries * HEADER_BYTES
  let bytes = 0
  for await (const chunk of chunks) {
    bytes += chunk.length
    if (bytes > room) tooLarge("maxBytes", bytes, limits)
    yield chunk
  }
}

async function* unpacked(
  from: AsyncIterable<Buffer>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Buffer> {
  const zstd = createZstdDecompress({
    params: { [constants.ZSTD_d_windowLogMax]: MAX_WINDOW_LOG },
  })
  const feeding = pipeline(from, zstd, signal ? { signal } : {})
  feeding.catch(() => {})
  try {
    for await (const chunk of zstd) yield chunk
    await feeding
  } catch (thrown) {
    signal?.throwIfAborted()
    if (!/^Z(STD)?_/.test(String((thrown as NodeJS.ErrnoException).code))) throw thrown
    refuse(`it is not whole: ${(thrown as Error).message}`, "")
  }
}

const assertWelcome = async (
  context: Context,
  { id, flavour, parents }: ArchiveManifest,
): Promise<void> => {
  if (flavour !== context.flavour) {
    throw new BerthError(
      "layers.wrong_flavour",
      `the archive's layer is of the flavour ${flavour}, this store of ${context.flavour}`,
      { details: { subject: id, found: flavour, wanted: context.flavour } },
    )
  }
  if ((await namesIn(context.layout.layers)).includes(id)) {
    throw new BerthError("layers.exists", `the layer ${id} is here already`, {
      details: { layer: id },
    })
  }
  await assertParents(context, id, parents)
}

/** The layers below must be here, and stand on each other as they did where the layer was made. */
const assertParents = async (
  context: Context,
  id: string,
  parents: ArchiveManifest["parents"],
): Promise<void> => {
  const missing: string[] = []
  for (const [at, parent] of parents.entries()) {
    const record = await findLayer(context, parent)
    if (record?.parents.join() !== parents.slice(0, at).join()) missing.push(parent)
  }
  if (missing.length === 0) return
  throw new BerthError("layers.parent_missing", `${id} stands on layers that are not here`, {
    details: { layer: id, missing },
  })
}
