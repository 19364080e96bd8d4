import { join } from "node:path"
import type { Backend } from "@berth/backends/backend"
import type { Layers } from "@berth/layers/layers"
import type { RepairedLayers } from "@berth/layers/repaired"
import type { SandboxId } from "@berth/protocol/ids"
import type { Logger } from "./logging/logger.ts"
import { type OperationFields, operation } from "./logging/operation.ts"
import { NO_RESCUE, type Rescue } from "./sandboxes/disk/rescue.ts"

export interface OwnLayersParts {
  readonly dataDir: string
  readonly log: Logger
  /** Makes room for a repair that meets a full disk. */
  readonly disk?: { readonly rescue: Pick<Rescue, "run"> }
  /** Called at steps at which tests crash. */
  readonly at?: (step: string) => void | Promise<void>
}

/** Opens the layers. Their first use waits until what a crash left of them is repaired. */
export const openOwnLayers = async (
  { dataDir, log, disk, at }: OwnLayersParts,
  backend: Pick<Backend, "idBase" | "inspect" | "resume">,
  signal: AbortSignal,
): Promise<RepairedLayers> => {
  const [{ openLayers }, { repairedFirst }] = await Promise.all([
    import("@berth/layers/open"),
    import("@berth/layers/repaired"),
  ])
  const { rescue = NO_RESCUE } = disk ?? {}
  const opened = await openLayers({
    root: join(dataDir, "layers"),
    idBase: backend.idBase,
    ...(at && { at }),
  })
  for (const sandbox of await opened.perhapsFrozen())
    await rescue
      .run(() => resumeFrozen(backend, sandbox, signal))
      .catch((err: unknown) => {
        signal.throwIfAborted()
        log.warn({ op: "sandbox.resume", sandbox, err }, STAYS_FROZEN)
      })
  return repairedFirst(opened, () =>
    rescue.run(() =>
      operation(log, "layers.repair", {}, (note) => repairLayers(opened, backend, note, signal)),
    ),
  )
}

const STAYS_FROZEN =
  "a sandbox that an interrupted snapshot left frozen cannot be resumed; it is tried again when the sandbox is used"

type Inspecting = Pick<Backend, "inspect">

const isAlive = async (backend: Inspecting, sandbox: SandboxId, signal: AbortSignal) => {
  const state = (await backend.inspect(sandbox, { signal }))?.state
  return state !== undefined && state !== "exited"
}

/** Resumes a sandbox that an interrupted snapshot left frozen, before anything asks whether it is paused. */
const resumeFrozen = async (
  backend: Pick<Backend, "inspect" | "resume">,
  sandbox: SandboxId,
  signal: AbortSignal,
) => {
  if (await isAlive(backend, sandbox, signal)) await backend.resume(sandbox, { signal })
}

/** Finishes what a crash cut short of the workspaces' files. */
const repairLayers = async (
  layers: Layers,
  backend: Inspecting,
  note: (fields: OperationFields) => void,
  signal: AbortSignal,
) => {
  const found = await layers.verify({
    signal,
    isAlive: (sandbox) => isAlive(backend, sandbox, signal),
    trees: false,
    wait: false,
  })
  note({ layersRepaired: found.repairs.length, layersDamaged: found.problems.length })
}
