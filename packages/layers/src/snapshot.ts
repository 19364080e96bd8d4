import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { type LayerId, newId, type SandboxId, type TopId } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"
import { topInUse } from "./claims/free.ts"
import { readClaim } from "./claims/read-claim.ts"
import { SNAPSHOT_RECORD, type TreePaths } from "./io/layout.ts"
import { type CopyProgress, type LiveCopy, openLiveCopy } from "./live-copy.ts"
import { type Pinned, writePin } from "./pins/pin.ts"
import { removePassingRecord, writePassingRecord } from "./records/files.ts"
import type { SnapshotRecord } from "./records/schemas.ts"
import { inDrafts, install, writeLayer } from "./stacks/drafts.ts"
import { flatParents } from "./stacks/flat.ts"
import { readStack, readTop, stackName } from "./stacks/read.ts"
import { whileKeeping } from "./stacks/reading.ts"
import { type Call, type Context, STORE } from "./store/context.ts"
import { type Freezer, whileFrozen } from "./while-frozen.ts"
import { MAX_STALL_MS, whileMoving } from "./while-moving.ts"

export interface SnapshotOptions extends Call, Freezer {
  /** The sandbox that has claimed the tops. Its processes are frozen. */
  readonly sandbox: SandboxId
  /** The reason why the snapshot is kept, for people. */
  readonly reason: string
  readonly onProgress?: (progress: CopyProgress) => void
  /** How long the copy may stand still while the sandbox runs. Default: MAX_STALL_MS. */
  readonly stallMs?: number
}

export interface Snapshot {
  /** A result for each stack, in their order. The pins end with this process, unless they are ended before. */
  readonly layers: readonly Pinned[]
  /** How long the sandbox stood still. */
  readonly frozenMs: number
}

interface Source {
  readonly key: StackKey
  readonly top: TopId
  readonly parents: readonly LayerId[]
}

interface Copying extends Source {
  readonly id: LayerId
  readonly draft: TreePaths
  readonly copy: LiveCopy
}

/**
 * Copies the tops of a running sandbox into layers of their own, on the same stacks; the sandbox goes on with its tops.
 * Most files are copied while it runs; then its processes stand still while later changes are copied. A copy reads what
 * they wrote from the kernel's memory, so the disk is waited for afterwards.
 */
export const snapshot = async (
  context: Context,
  keys: readonly StackKey[],
  options: SnapshotOptions,
): Promise<Snapshot> => {
  const sources = await Promise.all(keys.map((key) => findSource(context, key, options.sandbox)))
  const parents = async () => sources.flatMap((source) => source.parents)
  const begun = sources.map((source) => ({ ...source, id: newId.layer() }))
  const copyAll = async (drafted: readonly Omit<Copying, "copy">[]): Promise<Snapshot> => {
    const copying = drafted.map((one) => {
      const { tree } = context.layout.top(one.top)
      return { ...one, copy: openLiveCopy(context, tree, one.draft) }
    })
    await copyWhileItRuns(copying, options)
    const frozenMs = await serially(context, keys, () => copyRest(context, copying, options))
    for (const one of copying) await complete(context, one, options.signal)
    await context.at("snapshot.described")
    return { layers: await installAll(context, copying, options.reason), frozenMs }
  }
  return whileKeeping(context, parents, () => inDrafts(context, begun, copyAll, options.signal))
}

const findSource = async (context: Context, key: StackKey, sandbox: SandboxId): Promise<Source> => {
  const { top } = await readStack(context, key)
  if (top === null) {
    throw new BerthError("layers.unknown", `the stack ${stackName(key)} has no top`, {
      details: { ...key },
    })
  }
  await assertClaimedBy(context, top, sandbox)
  const { parents } = await readTop(context, top)
  return { key, top, parents: await flatParents(context, parents) }
}

/** Locks the stacks, in the order in which callers name them. */
const serially = <Result>(
  context: Context,
  keys: readonly StackKey[],
  work: () => Promise<Result>,
): Promise<Result> => {
  const [key, ...others] = keys
  if (key === undefined) return work()
  return context.serially(stackName(key), () => serially(context, others, work))
}

const copyWhileItRuns = async (
  copying: readonly Copying[],
  { sandbox, signal, stallMs = MAX_STALL_MS, onProgress = () => {} }: SnapshotOptions,
): Promise<void> => {
  let last: CopyProgress | undefined
  const stalled = () => notMoving(sandbox, stallMs, last)
  for (const { copy } of copying)
    await whileMoving({ signal, stallMs, stalled }, (either, moved) =>
      copy.copy({
        signal: either,
        onProgress: (progress) => {
          moved()
          last = progress
          onProgress(progress)
        },
      }),
    )
}

/** Copies the rest of all stacks while the sandbox stands still once, so that all its files are of the same moment. */
const copyRest = async (
  context: Context,
  copying: readonly Copying[],
  options: SnapshotOptions,
): Promise<number> => {
  const { at } = context
  const { sandbox, signal, onProgress = () => {} } = options
  for (const { key, top } of copying) {
    const found = await findSource(context, key, sandbox)
    if (found.top !== top) throw changedMeanwhile(key)
  }
  const notes = copying.map(({ draft }) => join(draft.directory, SNAPSHOT_RECORD))
  for (const [index, { top }] of copying.entries()) {
    const frozen: SnapshotRecord = { version: 1, top, sandbox }
    await writePassingRecord(notes[index] ?? "", frozen)
  }
  await at("snapshot.prepared")
  const frozenMs = await whileFrozen(options, sandbox, signal, async (untilThaw, moved) => {
    await at("snapshot.frozen")
    for (const { copy } of copying) {
      await copy.finish({
        signal: untilThaw,
        onProgress: (progress) => {
          moved()
          onProgress(progress)
        },
      })
    }
    await at("snapshot.copied")
  })
  for (const note of notes) await removePassingRecord(note)
  await at("snapshot.thawed")
  return frozenMs
}

const complete = async (
  context: Context,
  { id, parents, draft, copy }: Copying,
  signal: AbortSignal | undefined,
): Promise<void> => {
  await copy.clean(signal)
  const { files } = await writeLayer(context, { id, parents, origin: "snapshot" }, draft, signal)
  const expected = copy.entries()
  if (expected === undefined || expected === files) return
  const message = `the copy has ${files} files, and the sandbox had ${expected} when it stood still`
  throw new BerthError("layers.io", message, { details: { path: draft.tree, said: message } })
}

const installAll = (
  context: Context,
  copying: readonly Copying[],
  reason: string,
): Promise<Pinned[]> =>
  context.serially(STORE, async () => {
    for (const { id, draft } of copying) await install(context, draft.directory, id)
    await context.at("snapshot.renamed")
    const pinned: Pinned[] = []
    for (const { id } of copying)
      pinned.push({ layer: id, pin: await writePin(context, id, reason) })
    await context.at("snapshot.pinned")
    return pinned
  })

const notMoving = (
  sandbox: SandboxId,
  stallMs: number,
  last: CopyProgress | undefined,
): BerthError =>
  new BerthError(
    "deadline.exceeded",
    `nothing of the files of ${sandbox} could be copied for ${stallMs / 1_000} s, after ${last?.files ?? 0} of ${last?.of ?? 0}; it runs on. Look whether its disk is well, and try again`,
    { details: { sandbox, deadlineMs: stallMs, files: last?.files ?? 0 } },
  )

const changedMeanwhile = (key: StackKey): BerthError =>
  new BerthError(
    "layers.changed_meanwhile",
    `${stackName(key)} was frozen while it was copied: try again, which copies nothing then`,
    { details: { ...key } },
  )

const assertClaimedBy = async (context: Context, top: TopId, sandbox: SandboxId): Promise<void> => {
  const claim = await readClaim(context, top)
  if (claim?.sandbox === sandbox) return
  throw topInUse(
    top,
    claim ? `it is claimed by ${claim.sandbox}` : `${sandbox} has not claimed it`,
    {
      sandbox: claim?.sandbox,
    },
  )
}
