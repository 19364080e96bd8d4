import type { Writable } from "node:stream"
import { pipeline } from "node:stream/promises"
import { constants, createZstdCompress } from "node:zlib"
import type { LayerId } from "@berth/protocol/ids"
import type { Call, Context } from "../context.ts"
import { type Program, startProgram } from "../programs.ts"
import { whileReading } from "../reading.ts"
import { readLayer } from "../stacks/layer.ts"
import { toldEntries } from "../trees/told.ts"
import { admit, TREE } from "./admit.ts"
import { inside } from "./ids.ts"
import { fileEntry, manifestEntry } from "./manifest.ts"
import { tarOutput } from "./tar-output.ts"
import type { TarEntry } from "./tar-read.ts"
import { writeTar } from "./tar-write.ts"
import { xattrsOut } from "./xattrs.ts"

const ZSTD_PARAMS = {
  /** Fast, and most of what a stronger level saves is saved. */
  [constants.ZSTD_c_compressionLevel]: 3,
  [constants.ZSTD_c_checksumFlag]: 1,
}

/** What is in a store may be in an archive, however much it is: the limits are for what comes in. */
const NO_LIMITS = {
  maxEntries: Number.POSITIVE_INFINITY,
  maxBytes: Number.POSITIVE_INFINITY,
  maxNameBytes: Number.POSITIVE_INFINITY,
}

/**
 * Writes one layer as tar with zstd: its description first, then its tree with whiteouts, marks and
 * attributes. Owners are written as the sandbox sees them, so that any installation can take the archive.
 */
export const exportLayer = (
  context: Context,
  layer: LayerId,
  to: Writable,
  { signal }: Call = {},
): Promise<void> =>
  whileReading(context, layer, async () => {
    const { directory } = context.layout.layer(layer)
    const tar = startProgram(
      [
        ...(["tar", "-c", "--format=pax", "--pax-option=delete=atime,delete=ctime"] as const),
        ...["--sparse", "--numeric-owner", "--xattrs", "--xattrs-include=*", "-f", "-", TREE],
      ],
      { signal, on: directory, cwd: directory },
    )
    tar.stdin.end()
    try {
      await pipeline(
        writeTar(archived(context, layer, tar, signal)),
        createZstdCompress({ params: ZSTD_PARAMS }),
        to,
        signal ? { signal } : {},
      )
    } finally {
      tar.stop()
    }
  })

async function* archived(
  context: Context,
  layer: LayerId,
  tar: Program,
  signal: AbortSignal | undefined,
): AsyncGenerator<TarEntry> {
  const { flavour, idBase } = context
  const { id, parents, createdAt } = await readLayer(context, layer)
  yield manifestEntry({ version: 1, id, flavour, parents, createdAt })
  yield* admit(
    tarOutput(tar),
    {
      owner: (owner) => inside(owner, idBase),
      xattrs: (pax) => xattrsOut(pax, flavour, idBase),
    },
    NO_LIMITS,
  )
  yield* deadSockets(context, layer, signal)
}

/**
 * Tar has no sockets. One that nobody listens on is written as an empty file: it hides what lies below it, and
 * whoever connects to it is refused, just as before.
 */
async function* deadSockets(
  context: Context,
  layer: LayerId,
  signal: AbortSignal | undefined,
): AsyncGenerator<TarEntry> {
  const { layout, idBase } = context
  const sockets = toldEntries(context, layout.layer(layer).tree, "s", signal)
  for await (const { path, mode, uid, gid, changedNs } of sockets) {
    yield {
      ...fileEntry(`${TREE}/${Buffer.from(path).toString("latin1")}`, Buffer.alloc(0)),
      mode: mode & 0o7777,
      uid: inside(uid, idBase),
      gid: inside(gid, idBase),
      mtime: seconds(changedNs),
    }
  }
}

const NS_PER_S = 1_000_000_000n

/** Seconds with nine digits of their fraction, also of a time before 1970. */
const seconds = (ns: bigint): string => {
  const size = ns < 0n ? -ns : ns
  const fraction = String(size % NS_PER_S).padStart(9, "0")
  return `${ns < 0n ? "-" : ""}${size / NS_PER_S}.${fraction}`
}
