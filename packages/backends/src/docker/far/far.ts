import { abortable } from "@berth/host/abortable"
import { timeoutSignal } from "@berth/host/timeout-signal"
import { BerthError } from "@berth/protocol/errors"
import type { InstallationId, SandboxId, Slug } from "@berth/protocol/ids"
import type { SandboxSpec } from "@berth/protocol/sandbox"
import { DEADLINES_MS } from "../../backend.ts"
import { checkMountTargets } from "../../mount-targets.ts"
import type { Engine } from "../engine/engine.ts"
import type { EngineMount } from "../engine/mount.ts"
import { PRIVATE_TMPFS } from "../engine/private-tmpfs.ts"
import { openDoors } from "./doors.ts"
import { requireUnexposed } from "./exposed.ts"
import { farMounts, farVolumes, makeFarVolumes, removeFarFiles } from "./files.ts"
import { type Published, publishedAt, publishing, reachedAt } from "./port.ts"
import { openFarToolboxes } from "./toolbox.ts"

/**
 * The differences of an engine that does not work on this host's kernel, or does not see its files: it is on another
 * machine, or in a virtual one. Files lie in volumes there, and the connection is a port.
 */
export interface Far {
  /** Refuses a sandbox that asks for something that such an engine cannot give. */
  check(spec: SandboxSpec): void
  mounts(spec: SandboxSpec): EngineMount[]
  /** The names of the volumes that a sandbox has for itself. */
  volumes(spec: SandboxSpec): string[]
  /** Makes and fills the sandbox's volumes, and brings the toolbox to the engine. */
  prepare(spec: SandboxSpec, signal: AbortSignal): Promise<void>
  /** Removes the volumes that sandboxes of a workspace hand on to their successors. */
  removeFiles(workspace: Slug, signal: AbortSignal): Promise<void>
  publish<Body extends Published>(body: Body): Body
  /** Opens the connection to a running sandbox. */
  open(sandbox: SandboxId, engineId: string, sharedDirectory: string): void
  close(sandbox: SandboxId): void
  /** Called when a sandbox has ended, or the engine was away: its port may be another sandbox's by now. */
  forget(): void
  closeAll(): void
}

export const openFar = async (engine: Engine, installation: InstallationId): Promise<Far> => {
  const doors = openDoors()
  const toolboxes = openFarToolboxes(engine, installation)
  const host = await reachedAt(engine.address)
  let trial: Promise<void> | undefined
  /** Runs the check until it succeeds once, with one attempt for all who wait. */
  const requireUnexposedOnce = (image: string, toolbox: string, signal: AbortSignal) => {
    const within = timeoutSignal(DEADLINES_MS.create)
    trial ??= requireUnexposed(engine, { installation, image, toolbox }, within).catch(
      (failure) => {
        trial = undefined
        throw failure
      },
    )
    return abortable(trial, signal)
  }
  return {
    check(spec) {
      if (spec.config.network.kind === "none") throw noNetwork()
      checkMountTargets(spec.config.mounts, { inMemory: Object.keys(PRIVATE_TMPFS) })
      farMounts(spec, toolboxes)
    },
    mounts: (spec) => farMounts(spec, toolboxes),
    volumes: farVolumes,
    async prepare(spec, signal) {
      const { system, mounts } = spec.config
      if (system.kind !== "image") return
      for (const mount of mounts) {
        if (mount.kind !== "directory") continue
        await toolboxes.ensure(mount.source, system.digest, signal)
        await requireUnexposedOnce(system.digest, toolboxes.volumeOf(mount.source) ?? "", signal)
      }
      await makeFarVolumes(engine, spec, system.digest, signal)
    },
    removeFiles: (workspace, signal) => removeFarFiles(engine, { installation, workspace }, signal),
    publish: (body) => publishing(body, host),
    open: (sandbox, engineId, sharedDirectory) =>
      doors.open(sandbox, {
        sharedDirectory,
        address: () => publishedAt(engine, engineId, host, timeoutSignal(DEADLINES_MS.inspect)),
      }),
    close: doors.close,
    forget: doors.forget,
    closeAll: doors.closeAll,
  }
}

const noNetwork = (): BerthError =>
  new BerthError("backend.unsupported", "a sandbox elsewhere is reached over its network", {
    details: { path: "network.kind", given: "none", supported: ["open"] },
  })
