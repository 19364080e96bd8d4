import type { SandboxId } from "@berth/protocol/ids"
import type { ObservedSandbox } from "../backend.ts"
import type { EngineOperations } from "../engine-operations.ts"
import { createSandbox } from "./create.ts"
import { describeEngine } from "./describe.ts"
import type { Observed, Startable } from "./engine/observe.ts"
import { openFinder } from "./finder.ts"
import { openFresh } from "./fresh.ts"
import { readInfo } from "./info.ts"
import { listSandboxes } from "./list.ts"
import { readLog } from "./logs.ts"
import { whyUnfenced } from "./network/fence.ts"
import type { Parts } from "./parts.ts"
import { pauseContainer } from "./pause.ts"
import { removeSandbox } from "./remove.ts"
import { repairSandboxes } from "./repair.ts"
import { startContainer } from "./start.ts"
import { stopSandbox } from "./stop.ts"
import type { SystemOf } from "./systems.ts"

/** The operations of sandboxes that are containers of a Docker engine. */
export const dockerOperations = (
  parts: Parts,
  systemOf: SystemOf,
  close: () => Promise<void>,
): EngineOperations<Observed, Startable> => {
  const { engine, far, leaving, network, caches } = parts
  const { find, inspect } = openFinder(parts)
  const fresh = openFresh(parts)

  return {
    name: "docker",
    idBase: () => parts.info().idBase,
    describe: async (signal) => {
      const [now, unfenced] = await Promise.all([
        readInfo(engine, parts.directories.root, signal),
        whyUnfenced(signal),
      ])
      return describeEngine(engine, now, unfenced)
    },
    resolveSystem: systemOf,
    repair: (signal) => repairSandboxes(parts, signal),
    afterRepair: (signal) => openWays(parts, signal),

    find,
    findToStart: async (sandbox, signal) => (await fresh.take(sandbox)) ?? inspect(sandbox, signal),
    findAll: (signal) => listSandboxes(parts, signal),
    observe: async (seen) => withoutEngineFields(seen),

    create: async (spec, signal) => {
      const seen = await createSandbox(parts, spec, signal)
      fresh.add(spec, seen)
      return withoutEngineFields(seen)
    },
    start: async (seen, signal) => {
      await startContainer(parts, seen, signal)
      await openWay(parts, seen.identity.sandbox)
    },
    pause: ({ engineId }, signal) => pauseContainer(engine, engineId, signal),
    resume: async ({ engineId }, signal) => {
      const path = `/containers/${engineId}/unpause`
      await engine.ask({ method: "POST", path }, [204], signal)
    },
    stop: (sandbox, graceMs, signal) => {
      leaving.add(sandbox)
      const stopping = stopSandbox(parts, sandbox, graceMs, signal)
      return stopping.finally(() => leaving.delete(sandbox))
    },
    remove: (sandbox, signal) => {
      leaving.add(sandbox)
      fresh.drop(sandbox)
      far?.close(sandbox)
      return removeSandbox(parts, sandbox, signal).finally(() => leaving.delete(sandbox))
    },

    logs: async ({ engineId }, signal) => {
      const query = { stdout: true, stderr: true }
      const path = `/containers/${engineId}/logs`
      return readLog((await engine.ask({ method: "GET", path, query }, [200], signal)).body)
    },

    ensureNetwork: (signal) => network.ensure(signal),
    restoreFence: network.restore,
    ensureCaches: caches.ensure,
    listCaches: caches.list,
    removeCache: caches.remove,
    removeFiles: async (workspace, signal) => far?.removeFiles(workspace, signal),
    close,
  }
}

/** Opens the connections to all running sandboxes on an engine elsewhere. */
const openWays = async (parts: Parts, signal: AbortSignal): Promise<void> => {
  const all = parts.far === undefined ? [] : await listSandboxes(parts, signal)
  const running = all.filter(({ state }) => state === "running")
  await Promise.all(running.map(({ identity }) => openWay(parts, identity.sandbox)))
}

/** Opens the connection to a sandbox that runs on an engine elsewhere, once the sandbox answers. */
const openWay = async ({ far, directories }: Parts, sandbox: SandboxId): Promise<void> => {
  const note = far && (await directories.read(sandbox))
  if (note?.sharedDirectory !== undefined) far?.open(sandbox, note.engineId, note.sharedDirectory)
}

/** Leaves out the engine's own fields: callers of a backend see none. */
const withoutEngineFields = ({
  identity,
  state,
  createdAt,
  exit,
  unheldLimits,
}: ObservedSandbox): ObservedSandbox => {
  const seen = { identity, state, createdAt, unheldLimits }
  return exit === undefined ? seen : { ...seen, exit }
}
