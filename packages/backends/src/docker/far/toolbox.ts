import { readFile } from "node:fs/promises"
import { basename, join } from "node:path"
import { abortable } from "@berth/host/abortable"
import { keepStart, startChild } from "@berth/host/child"
import { timeoutSignal } from "@berth/host/timeout-signal"
import { BerthError } from "@berth/protocol/errors"
import type { InstallationId } from "@berth/protocol/ids"
import { ToolboxId } from "@berth/protocol/toolbox"
import type { Engine } from "../engine/engine.ts"
import { INSTALLATION_LABEL, ours } from "../engine/names.ts"
import { ensureVolume, listVolumes } from "../engine/volumes.ts"
import { type Shelf, withShelf } from "./shelf.ts"
import { tarOf } from "./tar.ts"

/** The toolboxes that were brought to the engine, each in a volume that is filled once. */
export interface FarToolboxes {
  /** The toolbox's volume; undefined for a directory that is no toolbox. */
  volumeOf(source: string): string | undefined
  /** Brings the toolbox to the engine, once for all who wait. */
  ensure(source: string, image: string, signal: AbortSignal): Promise<void>
}

const TOOLBOX_LABEL = "berth.toolbox"
/** A toolbox is some hundred megabytes, sent over a network. */
const FILL_DEADLINE_MS = 10 * 60_000
/** A file of each toolbox. It is copied last: a volume that has it is whole. */
const MANIFEST = "manifest.json"
/** The first words of a failed tar tell the cause. */
const MAX_WORDS_BYTES = 64 * 1024

export const openFarToolboxes = (engine: Engine, installation: InstallationId): FarToolboxes => {
  const filled = new Map<string, Promise<void>>()
  const volumeOf = (source: string) => {
    const id = ToolboxId.safeParse(basename(source))
    return id.success ? `berth-${installation}-${id.data}` : undefined
  }
  const fill = async (source: string, image: string): Promise<void> => {
    const signal = timeoutSignal(FILL_DEADLINE_MS)
    const name = volumeOf(source) ?? ""
    const labels = { [INSTALLATION_LABEL]: installation, [TOOLBOX_LABEL]: basename(source) }
    await ensureVolume(engine, { name, labels, options: {} }, signal)
    const put = async (shelf: Shelf) => {
      if (await shelf.has(join("toolbox", MANIFEST), signal)) return
      await putTree(shelf, source, signal)
    }
    await withShelf(engine, { installation, image, volumes: { toolbox: name } }, put, signal)
    await removeOthers(engine, installation, name, signal)
  }
  return {
    volumeOf,
    ensure(source, image, signal) {
      const filling =
        filled.get(source) ??
        fill(source, image).catch((failure) => {
          filled.delete(source)
          throw failure
        })
      filled.set(source, filling)
      return abortable(filling, signal)
    },
  }
}

const putTree = async (shelf: Shelf, source: string, signal: AbortSignal): Promise<void> => {
  const options = ["--create", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]
  const places = [`--exclude=./${MANIFEST}`, "--transform=s,^\\.,toolbox,SH", "--directory", source]
  const tar = startChild(["tar", ...options, ...places, "."], { signal })
  const said = keepStart(tar.stderr, MAX_WORDS_BYTES)
  tar.stdin.end()
  try {
    await shelf.put(tar.stdout, signal)
  } catch (thrown) {
    // An engine that refuses the archive leaves a tar that nobody reads.
    tar.kill()
    throw thrown
  }
  const { status } = await tar.closed
  if (status !== 0)
    throw new BerthError("backend.engine_failed", "the toolbox could not be sent to the engine", {
      details: { source, systemSaid: said().trim() },
    })
  const contents = await readFile(join(source, MANIFEST))
  const entry = { path: `toolbox/${MANIFEST}`, mode: 0o444, owner: 0, contents }
  await shelf.put(tarOf([entry]), signal)
}

/** Removes the toolboxes of older versions. The engine refuses while a sandbox has one. */
const removeOthers = async (
  engine: Engine,
  installation: InstallationId,
  current: string,
  signal: AbortSignal,
): Promise<void> => {
  const all = await listVolumes(engine, [ours(installation), TOOLBOX_LABEL], signal)
  const others = all.filter(({ Name }) => Name !== current)
  for (const { Name } of others)
    await engine.ask({ method: "DELETE", path: `/volumes/${Name}` }, [204, 404, 409], signal)
}
