import type { Slug } from "@berth/protocol/ids"
import type { SandboxSpec } from "@berth/protocol/sandbox"
import type { CacheName } from "@berth/protocol/workspace"
import type { ObservedSandbox } from "../backend.ts"
import type { EngineOperations } from "../engine-operations.ts"
import { refuseOtherConfiguration } from "../refusals.ts"
import type { Watchers } from "../watchers.ts"
import { createSandbox } from "./create.ts"
import { describeHost, unheldLimits } from "./describe.ts"
import { ExistingSandboxes } from "./existing.ts"
import { readLog } from "./log.ts"
import { observe } from "./observe.ts"
import type { Parts } from "./parts.ts"
import { pauseSandbox, resumeSandbox } from "./pause.ts"
import { prepareHost } from "./prepare-host.ts"
import { removeSandbox } from "./remove.ts"
import { repairSandboxes } from "./repair.ts"
import { openSystemResolver } from "./resolve-system.ts"
import { startSandbox } from "./start.ts"
import type { SandboxState } from "./state-file.ts"
import { stopSandbox } from "./stop.ts"

/** The operations of sandboxes that an OCI runtime makes on this host. */
export const embeddedOperations = (
  parts: Parts,
  watchers: Pick<Watchers, "emit">,
): EngineOperations<SandboxState> => {
  const { states, cgroups, network, caches, exits, reclaims } = parts
  const existing = new ExistingSandboxes(states)
  const look = (state: SandboxState, signal: AbortSignal): Promise<ObservedSandbox> =>
    observe(state, cgroups.open(state.spec.identity.sandbox), exits, signal)

  return {
    name: "embedded",
    idBase: () => parts.idBase,
    describe: async () => describeHost(parts),
    resolveSystem: openSystemResolver(),
    repair: (signal) => repairSandboxes(parts, signal),
    afterRepair: (signal) => prepareHost(parts, signal),

    find: (sandbox) => existing.find(sandbox),
    findToStart: (sandbox) => existing.find(sandbox),
    findAll: () => existing.findAll(),
    observe: look,

    create: async (spec, signal) => {
      const { sandbox } = spec.identity
      const found = await existing.find(sandbox)
      if (found !== undefined) {
        refuseOtherConfiguration(spec.identity, found.spec.identity)
        return look(found, signal)
      }
      return existing.hideDuring(sandbox, () => create(parts, spec, signal))
    },
    start: (state, signal) => startSandbox(parts, state, signal),
    pause: ({ spec }, signal) => pauseSandbox(parts, spec.identity.sandbox, signal),
    resume: ({ spec }, signal) => resumeSandbox(parts, spec.identity.sandbox, signal),
    stop: async (sandbox, graceMs, signal) => {
      const state = await existing.find(sandbox)
      if (state !== undefined) await stopSandbox(parts, state, graceMs, signal)
      return state !== undefined
    },
    remove: async (sandbox, signal) => {
      const state = await states.read(sandbox)
      if (state === undefined) return
      reclaims.end(sandbox)
      await existing.hideDuring(sandbox, () => removeSandbox(parts, state, signal))
      watchers.emit({ kind: "removed", sandbox })
    },

    logs: async ({ spec }) => readLog(states.paths(spec.identity.sandbox).log),

    ensureNetwork: (signal) => network.ensure(signal),
    restoreFence: (signal) => network.restore(signal),
    ensureCaches: (workspace, names) => caches.ensure(workspace, names),
    listCaches: () => caches.list(),
    removeCache: async (workspace, cache, signal) => {
      const all = await states.readAll()
      if (all.some((state) => hasCache(state, workspace, cache))) return false
      await caches.remove(workspace, cache, signal)
      return true
    },
    // All files are layers, so there is nothing to remove.
    removeFiles: async () => {},

    close: async () => {
      reclaims.close()
      parts.sandboxIds.close()
      parts.launchers.close()
    },
  }
}

const create = async (
  parts: Parts,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<ObservedSandbox> => {
  const created = await createSandbox(parts, spec, unheldLimits(parts), signal)
  const { createdAt, unheldLimits: unheld } = created
  return { identity: spec.identity, state: "created", createdAt, unheldLimits: unheld }
}

const hasCache = ({ spec }: SandboxState, workspace: Slug, cache: CacheName): boolean =>
  spec.identity.workspace === workspace &&
  spec.config.mounts.some((mount) => mount.kind === "cache" && mount.cache === cache)
