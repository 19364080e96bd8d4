import type { Writable } from "node:stream"
import type { ExportOptions } from "@berth/layers/archive/export"
import type { ImportOptions } from "@berth/layers/archive/import"
import type { Layers } from "@berth/layers/layers"
import type { CopyProgress } from "@berth/layers/live-copy"
import type { Pinned } from "@berth/layers/pins/pin"
import { FLATTEN_AT_LAYERS } from "@berth/layers/stacks/depth"
import type { IsAlive } from "@berth/layers/tops/claim"
import type { TreeRoot } from "@berth/layers/tops/ensure"
import type { Freezer } from "@berth/layers/while-frozen"
import { BerthError } from "@berth/protocol/errors"
import { type LayerId, type SandboxId, Slug } from "@berth/protocol/ids"
import { AGENT_USER, WORKSPACE_TARGET } from "@berth/protocol/inside"
import type { StackKey } from "@berth/protocol/layer"
import type { Mount, Overlay } from "@berth/protocol/sandbox"
import type { FailPoint } from "../state/fail-point.ts"
import type { Flattening } from "./flattening.ts"

const { uid, gid } = AGENT_USER

/** The two trees of files that outlive a sandbox. Both belong to the agent's user. */
const STACKS = [
  { name: Slug.parse("workspace"), target: WORKSPACE_TARGET, mode: 0o755 },
  { name: Slug.parse("home"), target: AGENT_USER.home, mode: 0o700 },
]

/** The mounts of the files in every workspace's config. The layers of the moment are no part of it. */
export const FILE_MOUNTS: readonly Mount[] = STACKS.map(({ name: stack, target }) => ({
  kind: "stack",
  stack,
  target,
}))

/** The files of workspaces. Only one sandbox at a time has them. */
export interface WorkspaceFiles {
  /** Whether the workspace has any files on this host. */
  has(workspace: Slug): Promise<boolean>
  /** Gives the files to a sandbox, made if there are none. A repeated call for the same sandbox gives the same. */
  claim(workspace: Slug, sandbox: SandboxId): Promise<Overlay[]>
  /** Takes the files back when the sandbox is gone. May be called twice. */
  release(workspace: Slug, sandbox: SandboxId): Promise<void>
  /**
   * Removes the files at once. Deleting them goes on after the call, and only then does the disk have the space back.
   */
  remove(workspace: Slug): Promise<void>
  /** Refuses a `deed` ("forked", "exported" or "imported") where the files are not on this host. */
  assertHere(workspace: Slug, deed: string): void
  /** Freezes the files as they are now. That costs as much as was written since the last time. */
  freeze(workspace: Slug, how: Freezing): Promise<FrozenFiles>
  /** Puts another workspace on frozen files. */
  put(workspace: Slug, frozen: Pick<FrozenFiles, "layers">): Promise<void>
  /** Writes frozen files as an archive. */
  export(frozen: Pick<FrozenFiles, "layers">, to: Writable, options: ExportOptions): Promise<void>
  /**
   * Imports files from an archive for a workspace that has none. Returns whether they have been through a whole boot.
   */
  import(workspace: Slug, from: AsyncIterable<Buffer>, how: Importing): Promise<boolean>
  /** Removes layers that no workspace stands on. */
  collect(signal?: AbortSignal): Promise<void>
}

export interface Freezing {
  /** Why the files are frozen, for people. */
  readonly reason: string
  /** The sandbox that has the files; undefined: none has. */
  readonly live: FrozenWhile | undefined
  readonly signal: AbortSignal
  readonly onProgress: (progress: CopyProgress) => void
}

/** The files of a workspace as they were at one moment. */
export interface FrozenFiles {
  readonly layers: readonly LayerId[]
  /** How long the sandbox that has the files stood still. */
  readonly frozenMs: number
  /** Unpins the layers, when something else keeps them or they are not needed any more. */
  end(): Promise<void>
}

export type Importing = Pick<ImportOptions, "signal" | "assertRoom">

/** The sandbox that has the files, which stands still while they are copied. */
export interface FrozenWhile extends Freezer {
  readonly sandbox: SandboxId
}

export interface FilesParts {
  readonly store: Layers
  readonly isAlive: IsAlive
  readonly flattening: Pick<Flattening, "deep" | "rebased">
  readonly at: FailPoint
}

export const openFiles = (parts: FilesParts): WorkspaceFiles => {
  const { store } = parts
  const put: WorkspaceFiles["put"] = (workspace, { layers }) => putStacks(parts, workspace, layers)
  return {
    has: (workspace) => store.hasStacks(workspace),
    claim: (workspace, sandbox) =>
      Promise.all(STACKS.map((stack) => claimStack(parts, stack, { workspace, sandbox }))),
    release: async (workspace, sandbox) => {
      for (const { name } of STACKS) await store.releaseStack({ workspace, name }, sandbox)
    },
    remove: async (workspace) => {
      for (const { name } of STACKS) await store.remove({ workspace, name })
      await store.collect({ wait: false })
    },
    assertHere: () => {},
    freeze: (workspace, how) => freezeStacks(store, workspace, how),
    put,
    export: ({ layers }, to, options) => {
      const trees = STACKS.flatMap(({ name }, at) => {
        const layer = layers[at]
        return layer === undefined ? [] : [{ name, layer }]
      })
      return store.exportTrees(trees, to, options)
    },
    import: async (workspace, from, how) => {
      const names = STACKS.map(({ name }) => name)
      const reason = `${workspace} is imported`
      const { layers: pinned, isBooted } = await store.importTrees(from, names, { ...how, reason })
      try {
        await put(workspace, { layers: pinned.map(({ layer }) => layer) })
      } finally {
        await unpin(store, pinned)
      }
      return isBooted
    },
    collect: async (signal) => {
      await store.collect({ wait: false, ...(signal && { signal }) })
    },
  }
}

const keysOf = (workspace: Slug): StackKey[] => STACKS.map(({ name }) => ({ workspace, name }))

/** Gives the top of one stack to a sandbox. A stack that is deep by now is flattened in the background. */
const claimStack = async (
  { store, isAlive, flattening }: FilesParts,
  { name, mode }: (typeof STACKS)[number],
  { workspace, sandbox }: { readonly workspace: Slug; readonly sandbox: SandboxId },
): Promise<Overlay> => {
  const key: StackKey = { workspace, name }
  await ensureTop(store, key, { uid, gid, mode })
  const { mount, rebased } = await store.claimTop(key, sandbox, isAlive)
  if (rebased) flattening.rebased()
  if (mount.lower.length >= FLATTEN_AT_LAYERS) flattening.deep(key)
  const { cwd: base, lower, upper, work, options } = mount
  return {
    stack: name,
    base,
    lower: [...lower],
    upper,
    work,
    options: [...options],
  }
}

const ensureTop = async (store: Layers, key: StackKey, root: TreeRoot): Promise<void> => {
  try {
    await store.ensureTop(key, root)
  } catch (thrown) {
    const code = thrown instanceof BerthError ? thrown.code : undefined
    if (code === "layers.unknown") await store.put(key, null)
    // Forks of forks can be too deep to mount before the background has flattened one of them.
    else if (code === "layers.too_deep") await store.flatten(key)
    else throw thrown
    await store.ensureTop(key, root)
  }
}

/** Puts the stacks of a workspace on layers: all of them, or none. */
const putStacks = async (
  { store, at }: FilesParts,
  workspace: Slug,
  layers: readonly LayerId[],
): Promise<void> => {
  const made: StackKey[] = []
  try {
    for (const [index, key] of keysOf(workspace).entries()) {
      await store.put(key, layers[index] ?? null)
      made.push(key)
      await at("files.put")
    }
  } catch (thrown) {
    for (const key of made) await store.remove(key)
    throw thrown
  }
}

const freezeStacks = async (
  store: Layers,
  workspace: Slug,
  { reason, live, signal, onProgress }: Freezing,
): Promise<FrozenFiles> => {
  if (live === undefined) {
    const layers: LayerId[] = []
    for (const key of keysOf(workspace)) layers.push((await store.freeze(key, { signal })).layer)
    return { layers, frozenMs: 0, end: async () => {} }
  }
  const options = { ...live, reason, signal, onProgress }
  const { layers: pinned, frozenMs } = await store.snapshot(keysOf(workspace), options)
  const layers = pinned.map(({ layer }) => layer)
  return { layers, frozenMs, end: () => unpin(store, pinned) }
}

const unpin = async (store: Layers, pinned: readonly Pinned[]): Promise<void> => {
  for (const { pin } of pinned) await store.unpin(pin)
}
