import type { Backend } from "@berth/backends/backend"
import type { Serially } from "@berth/host/serial"
import type { Shortage } from "@berth/host/shortage"
import type { Layers } from "@berth/layers/layers"
import type { SandboxId } from "@berth/protocol/ids"
import type { Logger } from "../../logging/logger.ts"
import type { Rescue } from "../disk/rescue.ts"
import type { FailPoint } from "../state/fail-point.ts"
import type { State } from "../state/open.ts"
import type { Leases } from "../use/leases.ts"
import { openEngineFiles } from "./engine-files.ts"
import { openFiles, type WorkspaceFiles } from "./files.ts"
import { type FilesLeft, openFilesLeft } from "./files-left.ts"
import { type Flattening, openFlattening } from "./flattening.ts"
import { type Freeze, openFreezing } from "./freezing.ts"
import { openLeftFiles } from "./left-files.ts"
import { type Newcomers, openNewcomers } from "./newcomers.ts"

export interface FilesParts extends State {
  readonly backend: Backend
  /** Whether the workspaces' files are layers of this host; otherwise the engine has them. */
  readonly hasLayers: boolean
  readonly layers: Layers
  readonly leases: Leases
  readonly shortage: Shortage
  /** Runs one operation at a time for each workspace. */
  readonly serially: Serially
  readonly log: Logger
  readonly at: FailPoint
  /** Files of no workspace are kept for this long. */
  readonly keepLeftMs: number
  readonly wake: (sandbox: SandboxId) => void
  /** Why a sandbox stays halted, if it does. */
  readonly held: (sandbox: SandboxId) => string | undefined
  /** Why a sandbox is halted, if it is, be it for a moment. */
  readonly haltOf: (sandbox: SandboxId) => string | undefined
  readonly rescue: Pick<Rescue, "run">
  /** Called when the files of a sandbox that stood still are copied. */
  readonly onThaw: () => void
}

/** The files of workspaces. */
export interface FilesRoom {
  readonly files: WorkspaceFiles
  readonly filesLeft: FilesLeft
  readonly newcomers: Newcomers
  readonly freeze: Freeze
  readonly flattening: Flattening
  /** Removes files that no workspace has had for a while. */
  readonly sweep: () => Promise<void>
}

export const openFilesRoom = (parts: FilesParts): FilesRoom => {
  const { backend, layers, at } = parts
  const isAlive = async (sandbox: SandboxId): Promise<boolean> => {
    const state = (await backend.inspect(sandbox))?.state
    return state !== undefined && state !== "exited"
  }
  const flattening = openFlattening(parts)
  const filesHere = openFiles({ store: layers, isAlive, flattening, at })
  const files = parts.hasLayers ? filesHere : openEngineFiles(backend, filesHere)
  const filesLeft = openFilesLeft({ ...parts, files })
  return {
    files,
    filesLeft,
    newcomers: openNewcomers({ ...parts, files, assertUnused: filesLeft.assertUnused }),
    freeze: openFreezing({ ...parts, files }),
    flattening,
    sweep: openLeftFiles({ ...parts, files: filesHere, keepMs: parts.keepLeftMs }),
  }
}
