import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { Guard } from "../disk/guard.ts"
import { RESPITE_MS } from "../disk/respites.ts"
import type { Rows } from "../state/rows.ts"
import { unknownSandbox } from "../state/unknown.ts"
import type { Leases } from "../use/leases.ts"

export interface MakeRoomParts {
  readonly rows: Pick<Rows, "get">
  readonly leases: Pick<Leases, "by" | "acquire" | "release">
  readonly guard: Pick<Guard, "held" | "relent">
}

/** The subject of the hold that a person's make-room has. */
const MAKING_ROOM = "make-room"

/**
 * Lets a halted sandbox go on for a while, so that a person can delete files in it. All its processes but the
 * supervisor are ended. Fails if it is not halted.
 */
export const makeRoom = async (
  { rows, leases, guard }: MakeRoomParts,
  sandbox: SandboxId,
): Promise<void> => {
  const row = await rows.get(sandbox)
  if (row === undefined) throw unknownSandbox(sandbox)
  if (guard.held(sandbox) === undefined) throw notHalted(sandbox)
  // The lease keeps the sandbox from being stopped when everything in it ends.
  const [before] = (await leases.by(["person"], MAKING_ROOM)).filter(
    (lease) => lease.sandbox === sandbox,
  )
  const lease =
    before?.id ??
    (await leases.acquire({
      sandbox,
      kind: "hold",
      source: "person",
      subject: MAKING_ROOM,
      // The lease keeps the sandbox from what Berth does by itself, and gives way to a person's stop.
      yields: true,
      holder: "a person who makes room in it",
      ttlMs: RESPITE_MS,
    }))
  try {
    await guard.relent({ sandbox, workspace: row.workspace })
  } catch (thrown) {
    await leases.release(lease)
    throw thrown
  }
}

const notHalted = (sandbox: SandboxId): BerthError =>
  new BerthError("sandbox.not_halted", `${sandbox} is not halted`, { details: { sandbox } })
