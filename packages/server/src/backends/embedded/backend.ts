import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { InstallationId, SandboxId, Slug } from "@berth/protocol/ids"
import type { LimitName } from "@berth/protocol/limits"
import type { SandboxSpec, UnheldLimit } from "@berth/protocol/sandbox"
import type { CacheName } from "@berth/protocol/workspace"
import { mountCommand } from "../../host/mounts/mounter.ts"
import { serialByKey } from "../../host/serial.ts"
import { settleAll } from "../../host/settle-all.ts"
import type {
  Backend,
  BackendDescription,
  BackendEvent,
  Call,
  ObservedSandbox,
} from "../backend.ts"
import { DEADLINES_MS } from "../backend.ts"
import { operations, withinDeadline } from "../call.ts"
import { type OnFence, openFenceWatch } from "../fence-watch.ts"
import type { Architecture } from "../seccomp/profile.ts"
import { openWatchers } from "../watchers.ts"
import { openApart } from "./apart.ts"
import { openCaches } from "./caches.ts"
import { openCgroups } from "./cgroups/open.ts"
import { openLaunchers } from "./conmon.ts"
import { createSandbox } from "./create.ts"
import { openExits } from "./exits.ts"
import { asBackendError } from "./files-error.ts"
import { hasMapping, type IdMapping, type NoIdMapping, openIdMapping } from "./ids/mapping.ts"
import { AGENT_ID, idBase } from "./ids/range.ts"
import { openIdRanges } from "./ids/ranges.ts"
import { openSandboxIds } from "./ids/sandbox-ids.ts"
import { readLog } from "./log.ts"
import { createNetwork } from "./network/network.ts"
import { describeExit, findExit, observe, untilEnded } from "./observe.ts"
import type { Parts } from "./parts.ts"
import { signalProcess } from "./process.ts"
import { openReclaims } from "./reclaims.ts"
import { inUse, recoverSandboxes } from "./recover.ts"
import { removeSandbox } from "./remove.ts"
import { openRuntime } from "./runtime.ts"
import { makeRootPlace, runtimeMounts } from "./runtime-mounts.ts"
import { openCompiledFilter } from "./seccomp/compiled.ts"
import { type SandboxState, stateDirectory } from "./state.ts"
import { openContents } from "./system/contents.ts"
import { pruneSystems } from "./system/skeleton.ts"
import { openSystems } from "./system/systems.ts"
import { findTools } from "./tools.ts"

export interface EmbeddedOptions {
  readonly installation: InstallationId
  /** The directory for all of this backend's files: sandboxes, caches, the runtime's state. */
  readonly directory: string
  /** The search path for the host's programs. Default: the standard places. */
  readonly path?: string
  /** Called when the fence of sandboxes was gone. */
  readonly onFence?: OnFence
  /** Called before each step that a crash could interrupt: tests crash there. */
  readonly at?: (step: string) => void | Promise<void>
}

/** Opens the backend that makes sandboxes by an OCI runtime of this host, without any daemon. */
export const openEmbedded = async (options: EmbeddedOptions, call: Call = {}): Promise<Backend> =>
  withinDeadline("backend.open", DEADLINES_MS.describe, call, async (signal) => {
    const { installation, directory } = options
    if (process.geteuid?.() !== 0) {
      throw new BerthError(
        "backend.unavailable",
        "embedded sandboxes need a server that root runs",
        {
          details: { user: process.geteuid?.() },
        },
      )
    }
    const tools = await findTools(options.path)
    const states = stateDirectory(directory)
    await states.prepare()
    const base = idBase(installation)
    const architecture = nativeArchitecture()
    const mount = mountCommand(tools.perl, architecture)
    const [cgroups, runtime, apart, idMapping] = await settleAll([
      openCgroups({ group: `berth-${installation}` }, signal),
      openRuntime({ ...tools.runtime, root: states.runtimeRoot }, signal),
      openApart(directory),
      openIdMapping({ directory, mount, onDisk: base }, signal),
    ])
    const idRanges = openIdRanges(base)
    const parts: Parts = {
      states,
      tools,
      runtime,
      cgroups,
      idBase: base,
      idRanges,
      idMapping,
      mount,
      sandboxIds: openSandboxIds({
        onDisk: base,
        ranges: idRanges,
        isMapped: hasMapping(idMapping),
        joinsUserNamespaces: runtime.joinsUserNamespaces,
      }),
      directory,
      architecture,
      maxOpenFiles: await readMaxOpenFiles(),
      rootPlace: await makeRootPlace(),
      apart,
      runtimeMounts: await runtimeMounts(runtime, tools.runtime.path, apart),
      systems: openSystems({ directory: join(directory, "systems"), init: tools.tini }),
      filter: openCompiledFilter(states.runtimeRoot),
      launchers: openLaunchers(),
      network: createNetwork({ installation, directory: join(directory, "network") }),
      caches: openCaches(join(directory, "caches"), base + AGENT_ID),
      at: async (step) => options.at?.(step),
    }
    return compose(options, parts)
  })

const compose = (
  { installation, directory, onFence = () => {} }: EmbeddedOptions,
  parts: Parts,
): Backend => {
  const { states, cgroups, runtime, network, caches } = parts
  const exits = openExits(states.exits)
  const inTurn = serialByKey()
  const fenceWatch = openFenceWatch(network.restore, onFence)
  const reclaims = openReclaims((sandbox, signal) => cgroups.open(sandbox).reclaim(signal))

  const watchers = openWatchers((emit) =>
    exits.subscribe(
      (sandbox) => {
        announce(sandbox, emit).catch(() => emit({ kind: "resync" }))
      },
      () => emit({ kind: "resync" }),
    ),
  )
  const announce = async (sandbox: SandboxId, emit: (event: BackendEvent) => void) => {
    const record = await exits.read(sandbox)
    if (record === undefined) return
    emit({ kind: "exited", sandbox, exit: await describeExit(record, cgroups.open(sandbox)) })
  }

  /** Sandboxes that are being made or removed. They do not exist for other callers; leftovers of a failed one do. */
  const underWay = new Set<SandboxId>()
  const during = async <Result>(sandbox: SandboxId, work: () => Promise<Result>) => {
    underWay.add(sandbox)
    try {
      return await work()
    } finally {
      underWay.delete(sandbox)
    }
  }
  const find = async (sandbox: SandboxId): Promise<SandboxState | undefined> =>
    underWay.has(sandbox) ? undefined : states.read(sandbox)
  const need = async (sandbox: SandboxId): Promise<SandboxState> => {
    const state = await find(sandbox)
    if (state !== undefined) return state
    throw new BerthError("backend.unknown_sandbox", "there is no such sandbox", {
      details: { sandbox },
    })
  }
  const look = (state: SandboxState, signal: AbortSignal): Promise<ObservedSandbox> =>
    observe(state, cgroups.open(state.spec.identity.sandbox), exits, signal)

  const operation = operations(asBackendError)
  const contentsOf = openContents()

  return {
    name: "embedded",

    idBase: parts.idBase,

    resolveSystem: async (source) => {
      if (source.kind === "host") return { kind: "host", contents: contentsOf("/") }
      if (source.kind === "rootfs") return { ...source, contents: contentsOf(source.path) }
      throw new BerthError("backend.unsupported", "an image needs a backend that has images", {
        details: { path: "system", reference: source.reference, supported: ["host", "rootfs"] },
      })
    },

    describe: (call) => operation("describe", call, async () => describeHost(parts)),

    recover: (call) =>
      operation("remove", call, async (signal) => {
        const unrecovered = await recoverSandboxes(parts, signal)
        await fenceWatch.begin(signal)
        const { systems, ranges } = await inUse(parts)
        for (const range of ranges) parts.idRanges.hold(range)
        // The first look at the host takes half a second: made here, no sandbox waits for it.
        const { key, root, binds } = await parts.systems.prepare({ kind: "host" }, [], signal)
        await pruneSystems(join(directory, "systems"), systems.add(key))
        await Promise.all([parts.apart.entry(root, parts.rootPlace), parts.apart.binds(binds)])
        return unrecovered
      }),

    create: (spec, call) =>
      operation("create", call, (signal) =>
        inTurn(spec.identity.sandbox, async () => {
          refuseForeign(spec, installation)
          const existing = await find(spec.identity.sandbox)
          if (existing !== undefined) {
            refuseOther(spec, existing)
            return look(existing, signal)
          }
          const created = await during(spec.identity.sandbox, () =>
            createSandbox(parts, spec, unheldLimits(parts), signal),
          )
          const { createdAt, unheldLimits: unheld } = created
          return { identity: spec.identity, state: "created", createdAt, unheldLimits: unheld }
        }),
      ),

    start: (sandbox, call) =>
      operation("start", call, (signal) =>
        inTurn(sandbox, async () => {
          const state = await need(sandbox)
          const { state: now } = await look(state, signal)
          if (now === "running") return
          if (now !== "created") {
            throw new BerthError(
              "backend.wrong_state",
              `a sandbox that is ${now} cannot be started`,
              {
                details: { sandbox, state: now, needed: "created" },
              },
            )
          }
          await parts.at("starting")
          await runtime.start(sandbox, signal)
          await parts.at("started")
          await states.write({ ...state, progress: "started" })
        }),
      ),

    stop: (sandbox, { graceMs }, call) =>
      operation(
        "stop",
        { ...call, deadlineMs: call?.deadlineMs ?? graceMs + DEADLINES_MS.stop },
        (signal) =>
          inTurn(sandbox, async () => {
            const state = await need(sandbox)
            const cgroup = cgroups.open(sandbox)
            if ((await findExit(state, cgroup, exits, signal)) !== undefined) return
            if (state.init) signalProcess(state.init, "SIGTERM")
            reclaims.end(sandbox)
            if (await cgroup.isFrozen()) await cgroup.thaw(signal)
            const grace = AbortSignal.any([signal, AbortSignal.timeout(graceMs)])
            const isInTime = await untilEnded(state, exits, grace).then(
              () => true,
              () => false,
            )
            signal.throwIfAborted()
            if (isInTime) return
            if (state.init) signalProcess(state.init, "SIGKILL")
            if (cgroups.held.kill.held) await cgroup.kill(signal)
            await untilEnded(state, exits, signal)
          }),
      ),

    pause: (sandbox, call) =>
      operation("pause", call, (signal) =>
        inTurn(sandbox, async () => {
          const { state: now } = await look(await need(sandbox), signal)
          if (now === "paused") return
          if (now !== "running") {
            throw new BerthError(
              "backend.wrong_state",
              `a sandbox that is ${now} cannot be paused`,
              {
                details: { sandbox, state: now, needed: "running" },
              },
            )
          }
          await cgroups.open(sandbox).freeze(signal)
          reclaims.begin(sandbox)
        }),
      ),

    resume: (sandbox, call) =>
      operation("resume", call, (signal) =>
        inTurn(sandbox, async () => {
          const { state: now } = await look(await need(sandbox), signal)
          if (now === "running") return
          if (now !== "paused") {
            throw new BerthError(
              "backend.wrong_state",
              `a sandbox that is ${now} cannot be resumed`,
              {
                details: { sandbox, state: now, needed: "paused" },
              },
            )
          }
          reclaims.end(sandbox)
          await cgroups.open(sandbox).thaw(signal)
        }),
      ),

    remove: (sandbox, call) =>
      operation("remove", call, (signal) =>
        inTurn(sandbox, async () => {
          const state = await states.read(sandbox)
          if (state === undefined) return
          reclaims.end(sandbox)
          await during(sandbox, () => removeSandbox(parts, state, signal))
          watchers.emit({ kind: "removed", sandbox })
        }),
      ),

    list: (call) =>
      operation("list", call, async (signal) => {
        const known = await states.readAll()
        const whole = known.filter(({ spec }) => !underWay.has(spec.identity.sandbox))
        return Promise.all(whole.map((state) => look(state, signal)))
      }),

    inspect: (sandbox, call) =>
      operation("inspect", call, async (signal) => {
        const state = await find(sandbox)
        return state && look(state, signal)
      }),

    watch: (signal) => watchers.watch(signal),

    stats: (sandbox, call) =>
      operation("stats", call, async () => {
        await need(sandbox)
        return cgroups.open(sandbox).stats()
      }),

    logs: (sandbox, call) =>
      operation("logs", call, async () => {
        await need(sandbox)
        return readLog(states.paths(sandbox).log)
      }),

    ensureNetwork: (call) => operation("ensureNetwork", call, (signal) => network.ensure(signal)),

    async close() {
      await fenceWatch.close()
      reclaims.close()
      parts.sandboxIds.close()
      parts.launchers.close()
    },

    ensureCaches: (workspace, names, call) =>
      operation("ensureCache", call, () => caches.ensure(workspace, names)),

    listCaches: (call) => operation("listCaches", call, () => caches.list()),

    removeCache: (workspace, cache, call) =>
      operation("removeCache", call, async (signal) => {
        const all = await states.readAll()
        if (all.some((state) => hasCache(state, workspace, cache))) return false
        await caches.remove(workspace, cache, signal)
        return true
      }),

    // All files are layers, so there is nothing to remove.
    removeFiles: async () => {},
  }
}

const hasCache = ({ spec }: SandboxState, workspace: Slug, cache: CacheName): boolean =>
  spec.identity.workspace === workspace &&
  spec.config.mounts.some((mount) => mount.kind === "cache" && mount.cache === cache)

const nativeArchitecture = (): Architecture => {
  const { arch } = process
  if (arch === "x64" || arch === "arm64") return arch
  throw new BerthError("backend.unsupported", `there is no system call profile for ${arch}`, {
    details: { architecture: arch, supported: ["x64", "arm64"] },
  })
}

const readMaxOpenFiles = async (): Promise<number> => {
  const limits = await readFile("/proc/self/limits", "utf8")
  const hard = /^Max open files\s+\S+\s+(\S+)/m.exec(limits)?.[1]
  return hard === "unlimited" ? Number.MAX_SAFE_INTEGER : Number(hard)
}

const refuseForeign = ({ identity }: SandboxSpec, installation: InstallationId) => {
  if (identity.installation === installation) return
  throw new BerthError("input.invalid", "the sandbox belongs to another installation", {
    details: { path: "identity.installation", given: identity.installation, allowed: installation },
  })
}

const refuseOther = ({ identity }: SandboxSpec, { spec: existing }: SandboxState) => {
  if (identity.configHash === existing.identity.configHash) return
  throw new BerthError("backend.conflict", "a sandbox of this id has another configuration", {
    details: {
      sandbox: identity.sandbox,
      given: identity.configHash,
      exists: existing.identity.configHash,
    },
  })
}

const describeHost = ({
  cgroups,
  runtime,
  apart,
  idMapping,
  mount,
}: Parts): BackendDescription => ({
  backend: "embedded",
  engine: `${runtime.name} ${runtime.version}`,
  pause: cgroups.held.pause.held,
  limits: {
    memoryBytes: cgroups.held.memoryBytes,
    cpus: cgroups.held.cpus,
    pids: cgroups.held.pids,
    openFiles: { held: true },
    tmpBytes: { held: true },
    // The server holds these limits by measuring files: see sandboxes/disk.
    diskBytes: { held: true },
    diskInodes: { held: true },
  },
  networks: ["none", "open"],
  layers: true,
  notes: [
    ...(runtime.joinsUserNamespaces
      ? []
      : [
          "What the kernel counts per user (inotify, message queues, signals) sandboxes share with root: install crun.",
        ]),
    ...idNotes(idMapping),
    ...(mount === undefined
      ? ["On ext4, sandboxes can use the blocks that are reserved for root: install perl."]
      : []),
    ...(apart.shared.size === 0
      ? []
      : [
          `Sandboxes see when others open files of ${[...apart.shared].sort().join(", ")}: no overlay can be mounted there.`,
        ]),
    ...(cgroups.canReclaim
      ? []
      : ["A paused sandbox keeps its memory: cgroup v2 with the memory controller takes it back."]),
    "The server measures the files of sandboxes, and halts one that takes more than limits.diskBytes or limits.diskInodes allow, or fills the disk of the data directory: it may have taken more by then.",
  ],
})

/** Notes on a host where sandboxes have no ranges of ids of their own. */
const idNotes = (mapping: IdMapping | NoIdMapping): string[] => {
  if (!hasMapping(mapping)) {
    return [
      `Sandboxes share one range of ids, and what the kernel counts for its users (pages of pipes, descriptors on their way): ${mapping.why}.`,
    ]
  }
  if (mapping.unmapped.size === 0) return []
  const directories = [...mapping.unmapped].sort().join(", ")
  return [
    `Sandboxes that have ${directories} mounted share one range of ids: the kernel does not map the ids there.`,
  ]
}

const unheldLimits = (parts: Parts): UnheldLimit[] =>
  Object.entries(describeHost(parts).limits).flatMap(([limit, held]) =>
    held.held ? [] : [{ limit: limit as LimitName, why: held.why }],
  )
