import { lstat, mkdir, rename, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { syncDirectory } from "@berth/host/sync-directory"
import { BerthError } from "@berth/protocol/errors"
import {
  TOOLBOX_MANIFEST,
  type ToolboxBuild,
  type ToolboxId,
  type ToolboxManifest,
  type ToolboxProblem,
} from "@berth/protocol/toolbox"
import { compareTree } from "./compare.ts"
import type { Call, Context } from "./context.ts"
import { describeTree } from "./describe.ts"
import { flush } from "./flush.ts"
import type { ToolboxInput } from "./inputs/input.ts"
import { type Inspected, inspect } from "./inspect.ts"
import { lookAt } from "./look.ts"
import { renderManifest } from "./manifest.ts"
import { ownName } from "./owner.ts"
import { type Planned, planTree, sizeOf } from "./plan.ts"
import { countStep, type OnProgress } from "./progress.ts"
import { removeToolbox } from "./remove.ts"
import { madeFrom, writeSeal } from "./seal.ts"
import { sweep } from "./sweep.ts"
import { closeDirectories, FILE_MODE, writeTree } from "./write-tree.ts"

export interface BuildCall extends Call {
  readonly onProgress?: OnProgress
}

export interface Built {
  readonly manifest: ToolboxManifest
  readonly outcome: ToolboxBuild["outcome"]
  readonly problems: readonly ToolboxProblem[]
}

/** Makes the toolbox of these inputs, unless it exists. It appears complete, or not at all. */
export const build = async (
  context: Context,
  inputs: readonly ToolboxInput[],
  { signal, onProgress = () => {} }: BuildCall,
): Promise<Built> => {
  const { layout, arch, at } = context
  await mkdir(layout.root, { recursive: true })
  await sweep(layout)

  const look = await lookAt(inputs, { signal })
  const known = await madeFrom(layout, look)
  if (known !== undefined) {
    const there = await inspect(context, known, { signal })
    if (there.state === "intact") return present(there.manifest)
  }

  const planned = await planTree(inputs, signal)
  const bytesTotal = planned.reduce((sum, each) => sum + sizeOf(each), 0)
  const count = (step: Parameters<typeof countStep>[0]) => countStep(step, bytesTotal, onProgress)
  const manifest = await describeTree(inputs, planned, { arch, signal, onBytes: count("reading") })
  await at("described")
  const before = await inspect(context, manifest.id, { signal })
  if (before.state !== "intact") {
    await stage(context, { planned, manifest, signal, count }, before)
  }
  await writeSeal(layout, manifest.id, { inputs: look, signal })
  await at("sealed")
  if (before.state === "intact") return present(manifest)
  return before.state === "absent"
    ? { manifest, outcome: "built", problems: [] }
    : { manifest, outcome: "rebuilt", problems: before.problems }
}

/** The id of the toolbox that was made from these inputs, as they look now; undefined if there is none. */
export const idMadeFrom = async (
  { layout }: Context,
  inputs: readonly ToolboxInput[],
  { signal }: Call,
): Promise<ToolboxId | undefined> => await madeFrom(layout, await lookAt(inputs, { signal }))

const present = (manifest: ToolboxManifest): Built => ({
  manifest,
  outcome: "present",
  problems: [],
})

interface Staging extends Call {
  readonly planned: readonly Planned[]
  readonly manifest: ToolboxManifest
  readonly count: (step: "copying" | "checking") => (bytes: number, entry: string) => void
}

/** Makes the tree aside, compares it with its manifest, and gives it its name. */
const stage = async (
  context: Context,
  staging: Staging,
  before: Exclude<Inspected, { state: "intact" }>,
): Promise<void> => {
  const { layout, at } = context
  const { manifest, signal } = staging
  const tree = layout.incoming(ownName())
  try {
    await mkdir(tree, { mode: 0o755 })
    await at("staged")
    await fill(context, tree, staging)
    await requireEqual(tree, staging)
    await at("checked")
    await flush(tree, signal)
    await at("flushed")
    if (before.state === "changed") await setAside(context, manifest, before.inode)
    await install(context, tree, staging)
  } catch (thrown) {
    await removeToolbox(tree)
    throw thrown
  }
}

const fill = async (
  { at }: Context,
  tree: string,
  { planned, manifest, signal, count }: Staging,
): Promise<void> => {
  await writeTree(tree, planned, {
    signal,
    onBytes: count("copying"),
    onEntry: (entry) => at(`copied ${entry}`),
  })
  const file = join(tree, TOOLBOX_MANIFEST)
  await writeFile(file, renderManifest(manifest), { flag: "wx", mode: FILE_MODE })
  closeDirectories(tree, planned)
  await at("written")
}

const requireEqual = async (
  tree: string,
  { planned, manifest, signal, count }: Staging,
): Promise<void> => {
  const entries = new Map(planned.map(({ path, entry }) => [path, entry]))
  const tell = count("checking")
  const onBytes = (bytes: number, path: string) => tell(bytes, entries.get(path) ?? "")
  const problems = await compareTree(tree, manifest, { signal, onBytes })
  const [first] = problems
  if (first === undefined) return
  const entry = entries.get(first.path)
  throw new BerthError(
    "toolbox.input_changed",
    `what was copied for ${entry ?? "the toolbox"} is not what was read before: ${first.path}`,
    { details: { entry, path: first.path, problems } },
  )
}

/** Renames a tree that is not what it should be out of the way. Sandboxes that have it mounted keep it. */
const setAside = async (
  { layout, at }: Context,
  { id }: ToolboxManifest,
  inode: bigint,
): Promise<void> => {
  const tree = layout.toolbox(id)
  // Another builder may have put a good tree there meanwhile.
  const now = await lstat(tree, { bigint: true }).catch(() => undefined)
  if (now?.ino !== inode) return
  try {
    await rename(tree, layout.changed(id))
  } catch (thrown) {
    if ((thrown as NodeJS.ErrnoException).code !== "ENOENT") throw thrown
  }
  await at("set aside")
}

/** Gives the toolbox its name: from here on it exists. A builder that comes second takes the first one's. */
const install = async (
  context: Context,
  tree: string,
  { manifest: { id }, signal }: Staging,
): Promise<void> => {
  const { layout, at } = context
  try {
    await rename(tree, layout.toolbox(id))
  } catch (thrown) {
    if (!TAKEN.has(String((thrown as NodeJS.ErrnoException).code))) throw thrown
    const theirs = await inspect(context, id, { signal })
    if (theirs.state !== "intact") throw thrown
    await removeToolbox(tree)
    return
  }
  await at("installed")
  await syncDirectory(layout.root)
}

const TAKEN = new Set(["EEXIST", "ENOTEMPTY"])
