import { BerthError } from "@berth/protocol/errors"
import type { TopId } from "@berth/protocol/ids"
import { readRecord } from "../records/files.ts"
import { ClaimRecord } from "../records/schemas.ts"
import type { Context } from "../store/context.ts"
import { mountedBy } from "./mounted.ts"

/**
 * The claim on a top; undefined if there is none. Claims are not synced, so a power loss can leave one empty. A power
 * loss ends every sandbox, too: so a claim that cannot be read counts as none, unless the kernel shows the top mounted.
 */
export const readClaim = async (
  { layout }: Pick<Context, "layout">,
  top: TopId,
): Promise<ClaimRecord | undefined> => {
  try {
    return await readRecord(layout.top(top).claim, ClaimRecord)
  } catch (thrown) {
    if (!isDamaged(thrown) || (await mountedBy(top)).length > 0) throw thrown
    return undefined
  }
}

export const isDamaged = (thrown: unknown): boolean =>
  thrown instanceof BerthError && thrown.code === "layers.damaged"
