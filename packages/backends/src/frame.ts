import { serialByKey } from "@berth/host/serial"
import type { BerthError } from "@berth/protocol/errors"
import type { InstallationId, SandboxId } from "@berth/protocol/ids"
import { type Backend, type Call, DEADLINES_MS } from "./backend.ts"
import { operations } from "./call.ts"
import type { EngineOperations } from "./engine-operations.ts"
import { type OnFence, openFenceWatch } from "./fence-watch.ts"
import { hasToChange, refuseForeign, refuseUnknown } from "./refusals.ts"
import type { Watchers } from "./watchers.ts"

interface Frame {
  readonly installation: InstallationId
  readonly watchers: Watchers
  readonly asBackendError: (thrown: unknown, doing: string) => BerthError
  /** Called when the fence of sandboxes was gone. */
  readonly onFence?: OnFence | undefined
}

/**
 * Makes a backend of its operations on an engine. The frame gives each call its deadline and typed errors, runs the
 * changes of one sandbox one after another, and refuses calls that the sandbox's owner or state does not allow.
 */
export const frameBackend = <Found, Startable>(
  engine: EngineOperations<Found, Startable>,
  { installation, watchers, asBackendError, onFence = () => {} }: Frame,
): Backend => {
  const operation = operations(asBackendError)
  const fenceWatch = openFenceWatch((signal) => engine.restoreFence(signal), onFence)
  const changes = framedChanges(engine, installation, operation)

  const need = async (sandbox: SandboxId, signal: AbortSignal): Promise<Found> =>
    (await engine.find(sandbox, signal)) ?? refuseUnknown(sandbox)

  return {
    name: engine.name,

    get idBase() {
      return engine.idBase()
    },

    describe: (call) => operation("describe", call, (signal) => engine.describe(signal)),

    resolveSystem: (source, call) =>
      operation("resolveSystem", call, (signal) => engine.resolveSystem(source, signal)),

    repair: (call) =>
      operation("remove", call, async (signal) => {
        const unrepaired = await engine.repair(signal)
        await fenceWatch.begin(signal)
        await engine.afterRepair(signal)
        return unrepaired
      }),

    create: changes.create,
    start: changes.start,
    stop: changes.stop,
    pause: changes.pause,
    resume: changes.resume,
    remove: changes.remove,

    list: (call) =>
      operation("list", call, async (signal) => {
        const all = await engine.findAll(signal)
        return Promise.all(all.map((found) => engine.observe(found, signal)))
      }),

    inspect: (sandbox, call) =>
      operation("inspect", call, async (signal) => {
        const found = await engine.find(sandbox, signal)
        return found && engine.observe(found, signal)
      }),

    watch: (signal) => watchers.watch(signal),

    logs: (sandbox, call) =>
      operation("logs", call, async (signal) => engine.logs(await need(sandbox, signal), signal)),

    ensureNetwork: (call) =>
      operation("ensureNetwork", call, (signal) => engine.ensureNetwork(signal)),

    ensureCaches: (workspace, caches, call) =>
      operation("ensureCache", call, (signal) => engine.ensureCaches(workspace, caches, signal)),

    listCaches: (call) => operation("listCaches", call, (signal) => engine.listCaches(signal)),

    removeCache: (workspace, cache, call) =>
      operation("removeCache", call, (signal) => engine.removeCache(workspace, cache, signal)),

    removeFiles: (workspace, call) =>
      operation("removeFiles", call, (signal) => engine.removeFiles(workspace, signal)),

    close: async () => {
      await fenceWatch.close()
      await engine.close()
    },
  }
}

type Changes = Pick<Backend, "create" | "start" | "stop" | "pause" | "resume" | "remove">

/** The calls that change a sandbox. Those of one sandbox run one at a time, in the order of calling. */
const framedChanges = <Found, Startable>(
  engine: EngineOperations<Found, Startable>,
  installation: InstallationId,
  operation: ReturnType<typeof operations>,
): Changes => {
  const inTurn = serialByKey()
  const find = engine.find.bind(engine)
  const findToStart = engine.findToStart.bind(engine)

  /** Brings a sandbox from one state to the next. Does nothing if it is there already. */
  const change = <Seen extends Found | Startable>(
    name: "start" | "pause" | "resume",
    sandbox: SandboxId,
    call: Call | undefined,
    find: (sandbox: SandboxId, signal: AbortSignal) => Promise<Seen | undefined>,
    act: (found: Seen, signal: AbortSignal) => Promise<void>,
  ): Promise<void> =>
    operation(name, call, (signal) =>
      inTurn(sandbox, async () => {
        const found = (await find(sandbox, signal)) ?? refuseUnknown(sandbox)
        if (hasToChange(name, await engine.observe(found, signal))) await act(found, signal)
      }),
    )

  return {
    create: (spec, call) =>
      operation("create", call, (signal) =>
        inTurn(spec.identity.sandbox, async () => {
          refuseForeign(spec.identity, installation)
          return engine.create(spec, signal)
        }),
      ),

    start: (sandbox, call) =>
      change("start", sandbox, call, findToStart, engine.start.bind(engine)),

    pause: (sandbox, call) => change("pause", sandbox, call, find, engine.pause.bind(engine)),

    resume: (sandbox, call) => change("resume", sandbox, call, find, engine.resume.bind(engine)),

    stop: (sandbox, { graceMs }, call) =>
      operation(
        "stop",
        { ...call, deadlineMs: call?.deadlineMs ?? graceMs + DEADLINES_MS.stop },
        (signal) =>
          inTurn(sandbox, async () => {
            if (!(await engine.stop(sandbox, graceMs, signal))) refuseUnknown(sandbox)
          }),
      ),

    remove: (sandbox, call) =>
      operation("remove", call, (signal) => inTurn(sandbox, () => engine.remove(sandbox, signal))),
  }
}
