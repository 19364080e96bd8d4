import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { type LayerId, newId, type PinId, type SandboxId, type TopId } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"
import { type Call, type Context, STORE } from "./context.ts"
import { describe, inDraft, install } from "./drafts.ts"
import { SNAPSHOT_RECORD } from "./layout.ts"
import { writePin } from "./pins/pin.ts"
import { readRecord, removePassingRecord, writePassingRecord } from "./records/files.ts"
import { ClaimRecord, type SnapshotRecord } from "./records/schemas.ts"
import { readStack, readTop, stackName } from "./stacks/read.ts"
import { topInUse } from "./tops/free.ts"
import { copyTree } from "./trees/copy.ts"
import { type Freezer, whileFrozen } from "./while-frozen.ts"

export interface SnapshotOptions extends Call, Freezer {
  /** Whose processes are frozen: the one that has claimed the top. */
  readonly sandbox: SandboxId
  /** Why the snapshot is kept, for people. */
  readonly reason: string
}

export interface Pinned {
  readonly layer: LayerId
  /** What keeps the layer until it is unpinned. */
  readonly pin: PinId
}

/**
 * Copies the top of a running sandbox into a layer of its own, on the same stack; the sandbox goes on
 * with its top. Its processes stand still during the copy and no longer: a copy reads what they wrote from the
 * kernel's memory, so the disk is waited for afterwards, once for both.
 */
export const snapshot = (
  context: Context,
  key: StackKey,
  options: SnapshotOptions,
): Promise<Pinned> =>
  context.serially(stackName(key), async () => {
    const { layout, at } = context
    const { signal, sandbox, reason } = options
    const { top } = await readStack(context, key)
    if (top === null) {
      throw new BerthError("layers.unknown", `the stack ${stackName(key)} has no top`, {
        details: { ...key },
      })
    }
    await assertClaimedBy(context, top, sandbox)
    const { parents } = await readTop(context, top)
    const id = newId.layer()
    return inDraft(context, id, async (draft) => {
      const note = join(draft.directory, SNAPSHOT_RECORD)
      const frozen: SnapshotRecord = { version: 1, top, sandbox }
      await writePassingRecord(note, frozen)
      await at("snapshot.prepared")
      const { tree } = layout.top(top)
      try {
        await whileFrozen(options, sandbox, signal, async (untilThaw) => {
          await at("snapshot.frozen")
          await copyTree(tree, draft.tree, untilThaw)
          await at("snapshot.copied")
        })
      } catch (thrown) {
        throw isOverdue(thrown) ? await tooMuch(context, sandbox, tree, thrown) : thrown
      }
      await removePassingRecord(note)
      await at("snapshot.thawed")
      await describe(context, { id, parents, origin: "snapshot" }, draft, signal)
      await at("snapshot.described")
      return context.serially(STORE, async () => {
        await install(context, draft.directory, id)
        await at("snapshot.renamed")
        const pin = await writePin(context, id, reason)
        await at("snapshot.pinned")
        return { layer: id, pin }
      })
    })
  })

const isOverdue = (thrown: unknown): thrown is BerthError =>
  thrown instanceof BerthError && thrown.code === "deadline.exceeded"

/** Looks for how much there is to copy, for people: they wait for the answer. */
const COUNT_DEADLINE_MS = 10_000

/** Says how much could not be copied in time, and what to do about it. */
const tooMuch = async (
  { walk, idBase }: Context,
  sandbox: SandboxId,
  tree: string,
  overdue: BerthError,
): Promise<BerthError> => {
  const size = await walk(tree, idBase, { deadlineMs: COUNT_DEADLINE_MS }).catch(() => undefined)
  const files = size?.files
  const howMany = files === undefined ? "too many files to count" : `${files} files`
  const message = `${overdue.message}. It changed ${howMany}: stop it before the fork, which copies nothing then, or remove what it does not need`
  return new BerthError("deadline.exceeded", message, {
    details: { ...overdue.details, sandbox, ...(files !== undefined && { files }) },
    cause: overdue,
  })
}

const assertClaimedBy = async (
  { layout }: Context,
  top: TopId,
  sandbox: SandboxId,
): Promise<void> => {
  const claim = await readRecord(layout.top(top).claim, ClaimRecord)
  if (claim?.sandbox === sandbox) return
  throw topInUse(
    top,
    claim ? `it is claimed by ${claim.sandbox}` : `${sandbox} has not claimed it`,
    {
      sandbox: claim?.sandbox,
    },
  )
}
