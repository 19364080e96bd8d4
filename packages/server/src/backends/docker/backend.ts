import { BerthError } from "@berth/protocol/errors"
import type { InstallationId, SandboxId } from "@berth/protocol/ids"
import type { SandboxSpec } from "@berth/protocol/sandbox"
import { serialByKey } from "../../host/serial.ts"
import { type Backend, type Call, DEADLINES_MS, type ObservedSandbox } from "../backend.ts"
import { operations, withinDeadline } from "../call.ts"
import { type FenceWatch, type OnFence, openFenceWatch } from "../fence-watch.ts"
import { openWatchers, type Watchers } from "../watchers.ts"
import type { EngineAddress } from "./address.ts"
import { openCaches } from "./caches.ts"
import { inspectContainer } from "./containers.ts"
import { createSandbox } from "./create.ts"
import { describeEngine } from "./describe.ts"
import { openDirectories } from "./directories.ts"
import { openEngine } from "./engine.ts"
import { type EngineEvent, openEvents } from "./events.ts"
import { asBackendError } from "./failures.ts"
import { openFar } from "./far/far.ts"
import { openFinder } from "./finder.ts"
import { openFresh } from "./fresh.ts"
import { openImageSystems } from "./image-systems.ts"
import { type OnPull, openImages } from "./images.ts"
import { readInfo } from "./info.ts"
import { listSandboxes } from "./list.ts"
import { readLog } from "./logs.ts"
import { openMountVolumes } from "./mount-volumes.ts"
import { whyUnfenced } from "./network/fence.ts"
import { createNetwork } from "./network/network.ts"
import { exitOfCode, type Observed, observe } from "./observe.ts"
import type { Parts } from "./parts.ts"
import { pauseContainer } from "./pause.ts"
import { recoverSandboxes } from "./recover.ts"
import { removeSandbox } from "./remove.ts"
import { startContainer } from "./start.ts"
import { readStats, StatsAnswer } from "./stats.ts"
import { stopSandbox, wrongState } from "./stop.ts"
import { type SystemOf, systemsFrom } from "./systems.ts"

export interface DockerOptions {
  readonly installation: InstallationId
  /** The directory for all files of this backend that are not in the engine. */
  readonly directory: string
  readonly engine: EngineAddress
  /** The image for workspaces that name none. */
  readonly image: string
  /** Called with the progress of an image that is being pulled. */
  readonly onPull?: OnPull
  /** Called when the fence of sandboxes was gone. */
  readonly onFence?: OnFence
  /** Called at points where tests crash. */
  readonly at?: Parts["at"]
}

/** Sandboxes as containers of a Docker engine. */
export const openDocker = async (options: DockerOptions, call: Call = {}): Promise<Backend> =>
  withinDeadline("backend.open", DEADLINES_MS.describe, call, async (signal) => {
    const { installation, directory } = options
    const engine = await openEngine(options.engine, signal)
    const directories = await openDirectories(directory)
    let info = await readInfo(engine, directory, signal)
    const far = info.local ? undefined : await openFar(engine, installation)
    const parts: Parts = {
      installation,
      engine,
      info: () => info,
      directories,
      far,
      network: createNetwork(engine, installation, { fenced: far === undefined }),
      caches: openCaches(engine, () => info, installation),
      systems: openImageSystems(engine, installation, directory),
      keepOut: [directory],
      mountVolumes: openMountVolumes(engine),
      started: new Set(),
      leaving: new Set(),
      at: options.at ?? (() => {}),
    }
    /** Reads the engine's info again: another version may run after a restart. Its place does not change. */
    const renewInfo = () => {
      const asked = readInfo(engine, directory, AbortSignal.timeout(DEADLINES_MS.describe))
      asked.then(
        (now) => {
          info = { ...now, local: info.local }
        },
        () => {},
      )
    }
    const watchers = openWatchers()
    const announce = announcer(parts, watchers)
    const events = await openEvents(
      engine,
      installation,
      {
        onEvent: announce,
        onGap: () => {
          parts.network.forget()
          parts.started.clear()
          far?.forget()
          watchers.emit({ kind: "resync" })
          renewInfo()
          const signal = AbortSignal.timeout(DEADLINES_MS.remove)
          // Volumes that the engine still refuses to remove are left for `recover`.
          parts.mountVolumes.removeLeft(signal).catch(() => {})
        },
      },
      signal,
    )
    const images = openImages(engine, options.onPull ?? (() => {}))
    const systemOf = systemsFrom(images, options.image)
    const fenceWatch = openFenceWatch(parts.network.restore, options.onFence ?? (() => {}))
    return compose(parts, watchers, systemOf, fenceWatch, async () => {
      await fenceWatch.close()
      far?.closeAll()
      await events.close()
    })
  })

/** Announces each exit and removal once, with what the engine knows of it, in the order in which they happened. */
const announcer = ({ engine, installation, leaving, far }: Parts, watchers: Watchers) => {
  const inTurn = serialByKey()
  const tell = async ({ action, sandbox, engineId, exitCode = 0, at }: EngineEvent) => {
    // The port of an ended sandbox is free for another one.
    far?.forget()
    if (action === "destroy") return watchers.emit({ kind: "removed", sandbox })
    const signal = AbortSignal.timeout(DEADLINES_MS.inspect)
    // An inspection would keep the engine from removing the container.
    const found = leaving.has(sandbox)
      ? undefined
      : await inspectContainer(engine, engineId, signal)
    const seen = found && observe(found, installation, [])
    const exit = seen?.exit ?? exitOfCode(exitCode, at)
    watchers.emit({ kind: "exited", sandbox, exit })
  }
  return (event: EngineEvent): void => {
    inTurn(event.sandbox, () => tell(event)).catch(() => watchers.emit({ kind: "resync" }))
  }
}

/** Opens the connection to a sandbox that runs on an engine elsewhere, once the sandbox answers. */
const openWay = async ({ far, directories }: Parts, sandbox: SandboxId): Promise<void> => {
  const note = far && (await directories.read(sandbox))
  if (note?.link !== undefined) far?.open(sandbox, note.engineId, note.link)
}

const compose = (
  parts: Parts,
  watchers: Watchers,
  systemOf: SystemOf,
  fenceWatch: FenceWatch,
  close: () => Promise<void>,
): Backend => {
  const { engine, installation, info, leaving, network } = parts
  const inTurn = serialByKey()

  const { find, inspect } = openFinder(parts)
  const need = async (sandbox: SandboxId, signal: AbortSignal): Promise<Observed> =>
    (await find(sandbox, signal)) ?? refuseUnknown(sandbox)
  const post = (path: string, statuses: readonly number[], signal: AbortSignal) =>
    engine.ask({ method: "POST", path }, statuses, signal)

  const fresh = openFresh(parts)

  const operation = operations(asBackendError)

  /** Brings a sandbox from one state to the next. Does nothing if it is there already. */
  const change = <Seen extends Observed>(
    name: "start" | "pause" | "resume",
    { from, to, done }: { from: string; to: string; done: string },
    sandbox: SandboxId,
    call: Call | undefined,
    look: (sandbox: SandboxId, signal: AbortSignal) => Promise<Seen>,
    act: (seen: Seen, signal: AbortSignal) => Promise<unknown>,
  ) =>
    operation(name, call, (signal) =>
      inTurn(sandbox, async () => {
        const seen = await look(sandbox, signal)
        if (seen.state === to) return
        if (seen.state !== from) throw wrongState(seen, done, from)
        await act(seen, signal)
      }),
    )

  return {
    name: "docker",

    get idBase() {
      return info().idBase
    },

    resolveSystem: (source, call) =>
      operation("resolveSystem", call, (signal) => systemOf(source, signal)),

    describe: (call) =>
      operation("describe", call, async (signal) => {
        const [now, unfenced] = await Promise.all([
          readInfo(engine, parts.directories.root, signal),
          whyUnfenced(signal),
        ])
        return describeEngine(engine, now, unfenced)
      }),

    recover: (call) =>
      operation("remove", call, async (signal) => {
        const unrecovered = await recoverSandboxes(parts, signal)
        await fenceWatch.begin(signal)
        const all = parts.far === undefined ? [] : await listSandboxes(parts, signal)
        const running = all.filter(({ state }) => state === "running")
        await Promise.all(running.map(({ identity }) => openWay(parts, identity.sandbox)))
        return unrecovered
      }),

    create: (spec, call) =>
      operation("create", call, (signal) =>
        inTurn(spec.identity.sandbox, async () => {
          refuseForeign(spec, installation)
          const seen = await createSandbox(parts, spec, signal)
          fresh.add(spec, seen)
          return told(seen)
        }),
      ),

    start: (sandbox, call) =>
      change(
        "start",
        { from: "created", to: "running", done: "started" },
        sandbox,
        call,
        async (_, signal) =>
          (await fresh.take(sandbox)) ?? (await inspect(sandbox, signal)) ?? refuseUnknown(sandbox),
        async (seen, signal) => {
          await startContainer(parts, seen, signal)
          await openWay(parts, sandbox)
        },
      ),

    stop: (sandbox, { graceMs }, call) =>
      operation(
        "stop",
        { ...call, deadlineMs: call?.deadlineMs ?? graceMs + DEADLINES_MS.stop },
        (signal) =>
          inTurn(sandbox, async () => {
            leaving.add(sandbox)
            const stopping = stopSandbox(parts, sandbox, graceMs, signal)
            const isThere = await stopping.finally(() => leaving.delete(sandbox))
            if (!isThere) refuseUnknown(sandbox)
          }),
      ),

    pause: (sandbox, call) =>
      change(
        "pause",
        { from: "running", to: "paused", done: "paused" },
        sandbox,
        call,
        need,
        ({ engineId }, signal) => pauseContainer(engine, engineId, signal),
      ),

    resume: (sandbox, call) =>
      change(
        "resume",
        { from: "paused", to: "running", done: "resumed" },
        sandbox,
        call,
        need,
        ({ engineId }, signal) => post(`/containers/${engineId}/unpause`, [204], signal),
      ),

    remove: (sandbox, call) =>
      operation("remove", call, (signal) =>
        inTurn(sandbox, async () => {
          leaving.add(sandbox)
          fresh.drop(sandbox)
          parts.far?.close(sandbox)
          await removeSandbox(parts, sandbox, signal).finally(() => leaving.delete(sandbox))
        }),
      ),

    list: (call) =>
      operation("list", call, async (signal) => (await listSandboxes(parts, signal)).map(told)),

    inspect: (sandbox, call) =>
      operation("inspect", call, async (signal) => {
        const seen = await find(sandbox, signal)
        return seen && told(seen)
      }),

    watch: (signal) => watchers.watch(signal),

    stats: (sandbox, call) =>
      operation("stats", call, async (signal) => {
        const { engineId } = await need(sandbox, signal)
        const query = { stream: false, "one-shot": true }
        const path = `/containers/${engineId}/stats`
        return readStats(await engine.read({ method: "GET", path, query }, StatsAnswer, signal))
      }),

    logs: (sandbox, call) =>
      operation("logs", call, async (signal) => {
        const { engineId } = await need(sandbox, signal)
        const query = { stdout: true, stderr: true }
        const path = `/containers/${engineId}/logs`
        return readLog((await engine.ask({ method: "GET", path, query }, [200], signal)).body)
      }),

    ensureNetwork: (call) => operation("ensureNetwork", call, (signal) => network.ensure(signal)),

    close,

    ensureCaches: (workspace, names, call) =>
      operation("ensureCache", call, (signal) => parts.caches.ensure(workspace, names, signal)),

    listCaches: (call) => operation("listCaches", call, (signal) => parts.caches.list(signal)),

    removeCache: (workspace, cache, call) =>
      operation("removeCache", call, (signal) => parts.caches.remove(workspace, cache, signal)),

    removeFiles: (workspace, call) =>
      operation("removeFiles", call, async (signal) => parts.far?.removeFiles(workspace, signal)),
  }
}

/** Leaves out the engine's own fields: callers of a backend see none. */
const told = ({
  identity,
  state,
  createdAt,
  exit,
  unheldLimits: unheld,
}: ObservedSandbox): ObservedSandbox => {
  const seen = { identity, state, createdAt, unheldLimits: unheld }
  return exit === undefined ? seen : { ...seen, exit }
}

const refuseUnknown = (sandbox: SandboxId): never => {
  throw new BerthError("backend.unknown_sandbox", "there is no such sandbox", {
    details: { sandbox },
  })
}

const refuseForeign = ({ identity }: SandboxSpec, installation: InstallationId) => {
  if (identity.installation === installation) return
  throw new BerthError("input.invalid", "the sandbox belongs to another installation", {
    details: { path: "identity.installation", given: identity.installation, allowed: installation },
  })
}
