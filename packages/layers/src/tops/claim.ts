import { readFileSync } from "node:fs"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId, TopId } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"
import { assertNotMounted, topInUse, whenUnmounted } from "../claims/free.ts"
import { mountedBy } from "../claims/mounted.ts"
import { readClaim } from "../claims/read-claim.ts"
import { removePassingRecord, writeNewPassingRecord } from "../records/files.ts"
import type { ClaimRecord } from "../records/schemas.ts"
import { rebaseOnFlat } from "../stacks/flat.ts"
import { findStack, readStack, stackName } from "../stacks/read.ts"
import { type Context, STORE } from "../store/context.ts"
import { type OverlayMount, overlayMount } from "./mount.ts"

/** Asks the backend whether a sandbox still lives. A caller that cannot tell answers true. */
export type IsAlive = (sandbox: SandboxId) => boolean | Promise<boolean>

export interface ClaimedTop {
  readonly top: TopId
  readonly mount: OverlayMount
  /** Whether the top was put on a single layer for this claim: its earlier layers may be unused now. */
  readonly rebased: boolean
}

/**
 * Gives a stack's top to one sandbox and says how to mount it. A second sandbox is refused until the first one's claim
 * is released, or is found to be stale: made before the last reboot, or by a sandbox that is gone. Claims are files, so
 * they outlive the server. The same sandbox may claim again a top that it has not mounted.
 */
export const claimTop = (
  context: Context,
  key: StackKey,
  sandbox: SandboxId,
  isAlive: IsAlive = () => true,
): Promise<ClaimedTop> =>
  context.serially(stackName(key), async () => {
    const stack = await readStack(context, key)
    const { top } = stack
    if (top === null) {
      throw new BerthError("layers.unknown", `the stack ${stackName(key)} has no top`, {
        details: { ...key },
      })
    }
    if (!context.unseen.delete(top)) await assertNotMounted(top)
    const file = context.layout.top(top).claim
    const holder = await readClaim(context, top)
    const mine = holder?.sandbox === sandbox && holder.bootId === currentBootId()
    let rebased = false
    if (!mine) {
      if (holder && !(await isStale(top, holder, isAlive))) throw heldBy(top, holder)
      await context.serially(STORE, async () => {
        // Removes the stale claim, also one that cannot be read, which is no claim.
        await removePassingRecord(file)
        if (await writeNewPassingRecord(file, newClaim(sandbox))) return
        throw topInUse(top, "another claim came first", {})
      })
      rebased = (await rebaseOnFlat(context, stack)) !== stack
    }
    return { top, mount: await overlayMount(context, top), rebased }
  })

/** Ends a claim when its sandbox is gone. Idempotent. */
export const releaseTop = async (
  context: Context,
  top: TopId,
  sandbox: SandboxId,
): Promise<void> => {
  const holder = await readClaim(context, top)
  if (holder === undefined) return
  if (holder.sandbox !== sandbox) throw heldBy(top, holder)
  await whenUnmounted(top)
  await removePassingRecord(context.layout.top(top).claim)
}

/** Ends a sandbox's claim on a stack's top, if it has one. */
export const releaseStack = async (
  context: Context,
  key: StackKey,
  sandbox: SandboxId,
): Promise<void> => {
  const top = (await findStack(context, key))?.top
  if (!top) return
  const holder = await readClaim(context, top)
  if (holder?.sandbox === sandbox) await releaseTop(context, top, sandbox)
}

/** Whether a claim no longer holds. A claim on a top that the kernel shows as mounted is never stale. */
export const isStale = async (
  top: TopId,
  { bootId, sandbox }: ClaimRecord,
  isAlive: IsAlive,
): Promise<boolean> => {
  if ((await mountedBy(top)).length > 0) return false
  return bootId !== currentBootId() || !(await isAlive(sandbox))
}

const newClaim = (sandbox: SandboxId): ClaimRecord => ({
  version: 1,
  sandbox,
  bootId: currentBootId(),
  claimedAt: new Date().toISOString(),
})

const currentBootId = (): string => readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim()

const heldBy = (top: TopId, { sandbox }: ClaimRecord): BerthError =>
  topInUse(top, `it is claimed by ${sandbox}`, { sandbox })
