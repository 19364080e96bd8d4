import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { LayersProblem, LayersRepair } from "@berth/protocol/layer"

/** Verify's findings so far. */
export interface Findings {
  readonly repairs: LayersRepair[]
  readonly problems: LayersProblem[]
  readonly perhapsFrozen: SandboxId[]
}

export const noFindings = (): Findings => ({ repairs: [], problems: [], perhapsFrozen: [] })

/** Reads something. If it cannot be read, or does not belong here, adds a problem and returns undefined. */
export const readOrReport = async <Record>(
  { problems }: Findings,
  subject: string,
  read: () => Promise<Record>,
): Promise<Record | undefined> => {
  try {
    return await read()
  } catch (thrown) {
    if (!(thrown instanceof BerthError)) throw thrown
    const foreign = thrown.code === "layers.wrong_flavour" || thrown.code === "layers.wrong_ids"
    problems.push({
      kind: foreign ? "layer_foreign" : "record_unreadable",
      subject,
      said: thrown.message,
      stacks: [],
    })
    return undefined
  }
}
