import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import type { StoredPhase } from "../../store/database.ts"
import type { Rows } from "../state/rows.ts"
import type { NewSandbox } from "../state/sandbox-row.ts"
import { OLD_CONFIG } from "./world.ts"

/** Inserts a sandbox in any phase, each in a workspace of its own unless given otherwise. */
export const insertRow = async (
  rows: Rows,
  phase: StoredPhase,
  given: Partial<Omit<NewSandbox, "phase">> = {},
): Promise<SandboxId> => {
  const id = given.id ?? newId.sandbox()
  const isFirst = phase === "creating" || phase === "quarantined" || phase === "draining"
  await rows.insert({
    id,
    workspace: Slug.parse(id),
    configHash: OLD_CONFIG,
    mode: "fresh",
    ...given,
    phase: isFirst ? phase : "creating",
  })
  if (phase === "stopping" || phase === "gone")
    await rows.beginStop(id, { cause: "ended", reason: "of a test" })
  if (phase === "gone") await rows.move(id, ["stopping"], "gone")
  if (phase === "booting" || phase === "ready") await rows.move(id, ["creating"], phase)
  return id
}
