import { mkdir } from "node:fs/promises"
import { serialByKey } from "@berth/host/serial"
import type { LayerFlavour } from "@berth/protocol/layer"
import { exportTrees } from "./archive/export.ts"
import { importTrees } from "./archive/import.ts"
import { collect } from "./collect/collect.ts"
import { flatten } from "./flatten.ts"
import { freeze } from "./freeze.ts"
import { ioError } from "./io/io-error.ts"
import { layoutAt } from "./io/layout.ts"
import type { Layers } from "./layers.ts"
import { listLayers } from "./list.ts"
import { unpin } from "./pins/pin.ts"
import { readRecord, writeRecord } from "./records/files.ts"
import { StoreRecord } from "./records/schemas.ts"
import { snapshot } from "./snapshot.ts"
import { assertFits } from "./stacks/layer.ts"
import { findOwnerless, hasStacks, noteOwned, noteOwnerless } from "./stacks/ownerless.ts"
import { putStack } from "./stacks/put.ts"
import { removeStack } from "./stacks/remove.ts"
import type { Context } from "./store/context.ts"
import { claimTop, releaseStack, releaseTop } from "./tops/claim.ts"
import { ensureTop } from "./tops/ensure.ts"
import { openComparisons } from "./trees/compare.ts"
import { openThreads } from "./trees/threads.ts"
import { openTrash } from "./trees/trash.ts"
import { openWalks } from "./trees/walk.ts"
import { findPerhapsFrozen } from "./verify/perhaps-frozen.ts"
import { verify } from "./verify/verify.ts"

export interface LayersOptions {
  /** The store's own directory, on one file system. One process at a time has it open. */
  readonly root: string
  /** The first of the ids that the sandboxes run in. */
  readonly idBase: number
  readonly flavour?: LayerFlavour
  /** Called with every step after which a crash must do no harm: tests crash there. */
  readonly at?: (step: string) => void | Promise<void>
}

/** Opens a store of layers, and makes it if there is none. A store of another flavour or range of ids is refused. */
export const openLayers = async ({
  root,
  idBase,
  flavour = "trusted",
  at = () => {},
}: LayersOptions): Promise<Layers> => {
  const layout = layoutAt(root)
  await prepare(layout, { version: 1, flavour, idBase })
  const threads = openThreads()
  const context: Context = {
    layout,
    flavour,
    idBase,
    at,
    serially: serialByKey(),
    underWay: new Set(),
    unseen: new Set(),
    reading: new Map(),
    passing: new Set(),
    walk: openWalks(layout, threads),
    compare: openComparisons(layout, threads),
    trash: openTrash(layout.trash, at),
  }
  return {
    put: (key, layer, options) => putStack(context, key, layer, options),
    remove: (key) => removeStack(context, key),
    findOwnerless: () => findOwnerless(context),
    hasStacks: (workspace) => hasStacks(context, workspace),
    noteOwnerless: (workspace) => noteOwnerless(context, workspace),
    noteOwned: (workspace) => noteOwned(context, workspace),
    ensureTop: (key, treeRoot = OF_ROOT) => ensureTop(context, key, treeRoot),
    claimTop: (key, sandbox, isAlive) => claimTop(context, key, sandbox, isAlive),
    releaseTop: (top, sandbox) => releaseTop(context, top, sandbox),
    releaseStack: (key, sandbox) => releaseStack(context, key, sandbox),
    freeze: (key, call) => freeze(context, key, call),
    snapshot: (keys, options) => snapshot(context, keys, options),
    flatten: (key, call) => flatten(context, key, call),
    unpin: (pin) => unpin(context, pin),
    collect: (call) => collect(context, call),
    verify: (options) => verify(context, options),
    perhapsFrozen: () => findPerhapsFrozen(context),
    list: (call) => listLayers(context, call),
    exportTrees: (trees, to, options) => exportTrees(context, trees, to, options),
    importTrees: (from, names, options) => importTrees(context, from, names, options),
    close: () => context.trash.close(),
  }
}

/** Opens the store at a path, whatever its ids are; undefined if there is none. */
export const openLayersFound = async (root: string): Promise<Layers | undefined> => {
  const found = await readRecord(layoutAt(root).store, StoreRecord)
  return found && openLayers({ root, idBase: found.idBase, flavour: found.flavour })
}

const OF_ROOT = { uid: 0, gid: 0, mode: 0o755 }

/**
 * Makes the store's directories. Only root of the host may look into layers: they hold other people's programs, some
 * with set-user-id bits.
 */
const prepare = async (layout: Context["layout"], wanted: StoreRecord): Promise<void> => {
  try {
    await mkdir(layout.root, { recursive: true, mode: 0o700 })
    const found = await readRecord(layout.store, StoreRecord)
    if (found) assertFits(found, wanted, layout.root)
    else await writeRecord(layout.store, wanted)
    for (const name of [
      "layers",
      "tops",
      "stacks",
      "ownerless",
      "pins",
      "incoming",
      "trash",
      "empty",
    ] as const) {
      await mkdir(layout[name], { recursive: true, mode: 0o700 })
    }
  } catch (thrown) {
    throw ioError(thrown, layout.root)
  }
}
