import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { serialByKey } from "@berth/host/serial"
import type { InstallationId } from "@berth/protocol/ids"
import { z } from "zod"
import { group, passwd } from "../accounts.ts"
import type { Engine } from "./engine/engine.ts"
import { lookInto } from "./look-into.ts"
import { whatNodeLacks } from "./node-needs.ts"

/** Facts about the system in an image that a sandbox needs. */
export interface ImageSystem {
  /** Files on the host with the image's own users and groups, and the user that agents run as. */
  readonly passwd: string
  readonly group: string
  /** Parts that the image lacks for the programs of the toolbox; undefined if none. */
  readonly lacks: string | undefined
}

export interface ImageSystems {
  /** Looks into the image once: the contents of a digest never change. */
  of(digest: string, signal: AbortSignal): Promise<ImageSystem>
}

/** Raised when more is to be learned of images: facts of an earlier generation are then looked up again. */
const GENERATION = 1
const Facts = z.strictObject({
  generation: z.literal(GENERATION),
  lacks: z.string().nullable(),
})

export const openImageSystems = (
  engine: Engine,
  installation: InstallationId,
  directory: string,
): ImageSystems => {
  const root = join(directory, "images")
  const known = new Map<string, ImageSystem>()
  const inTurn = serialByKey()

  const learn = async (digest: string, signal: AbortSignal): Promise<ImageSystem> => {
    const place = join(root, digest.replace("sha256:", ""))
    const noted = await readNoted(place)
    if (noted !== undefined) return noted
    signal.throwIfAborted()
    const { lacks, ...files } = await examine(engine, installation, digest, signal)
    await mkdir(root, { recursive: true, mode: 0o711 })
    const aside = await mkdtemp(join(root, ".new-"))
    await writeFile(join(aside, "passwd"), files.passwd)
    await writeFile(join(aside, "group"), files.group)
    const facts: z.infer<typeof Facts> = { generation: GENERATION, lacks: lacks ?? null }
    await writeFile(join(aside, "facts"), JSON.stringify(facts))
    await rm(place, { recursive: true, force: true })
    await rename(aside, place)
    return at(place, lacks)
  }

  return {
    of: (digest, signal) =>
      inTurn(digest, async () => {
        const system = known.get(digest) ?? (await learn(digest, signal))
        known.set(digest, system)
        return system
      }),
  }
}

const at = (place: string, lacks: string | undefined): ImageSystem => ({
  passwd: join(place, "passwd"),
  group: join(place, "group"),
  lacks,
})

/** Reads the facts of an earlier look; undefined if they are incomplete. */
const readNoted = async (place: string): Promise<ImageSystem | undefined> => {
  try {
    const { lacks } = Facts.parse(JSON.parse(await readFile(join(place, "facts"), "utf8")))
    return at(place, lacks ?? undefined)
  } catch {
    return undefined
  }
}

const examine = (
  engine: Engine,
  installation: InstallationId,
  digest: string,
  signal: AbortSignal,
) =>
  lookInto(engine, { installation, digest }, signal, async ({ has, read }) => {
    const shell = (await has("/bin/bash")) ? "/bin/bash" : "/bin/sh"
    return {
      passwd: passwd(await read("/etc/passwd"), shell),
      group: group(await read("/etc/group")),
      lacks: await whatNodeLacks(has),
    }
  })
