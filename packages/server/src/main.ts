import { readFileSync } from "node:fs"
import { findPackageJSON } from "node:module"
import { join } from "node:path"
import { performance } from "node:perf_hooks"
import { openReserve } from "@berth/host/reserve"
import { DEFAULT_ENGINE, parseEngineAddress } from "@berth/local/config/engine-address"
import { configHere, type HostOptions } from "@berth/local/config/here"
import type { LoadedConfig } from "@berth/local/config/load"
import { writeLockHolder } from "@berth/local/lock-holder"
import { groupNamed } from "@berth/local/owned/account"
import { refuseForeign } from "@berth/local/owned/directory"
import { shareDirectory } from "@berth/local/owned/share"
import { ensureToken } from "@berth/local/token"
import type { BootTrace } from "@berth/protocol/boot"
import type { DoctorReport } from "@berth/protocol/doctor"
import { type Duration, durationMs } from "@berth/protocol/duration"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { LayersListing, LayersReport } from "@berth/protocol/layer"
import { sizeBytes } from "@berth/protocol/size"
import type { ToolboxId, ToolboxReport, ToolboxSummary } from "@berth/protocol/toolbox"
import type { BuildCall } from "@berth/toolbox/build"
import type { OptionalAgent } from "@berth/toolbox/inputs/optional-agents"
import type { BuiltToolbox } from "@berth/toolbox/store"
import { listen } from "./api/listen.ts"
import { stopApi } from "./api/stop.ts"
import { Turns } from "./events/turns.ts"
import { openKeys } from "./keys/keys.ts"
import type { Logger } from "./logging/logger.ts"
import { type OperationFields, operation, writeOperation } from "./logging/operation.ts"
import { Secrets } from "./logging/secrets.ts"
import type { BackendChoice } from "./open-backend.ts"
import { policyOf } from "./sandboxes/deciding/policy.ts"
import { openRescue } from "./sandboxes/disk/rescue.ts"
import { currentToolbox } from "./sandboxes/making/current-toolbox.ts"
import { startSandboxes } from "./start-sandboxes.ts"
import type { Store } from "./store/open.ts"

/*
 * The composition root: the commands that run on the host, each of which builds what it needs. The environment is read
 * only here and where the configuration is loaded. Modules that only one command needs are loaded when it runs, so that
 * asking for the status does not wait for a database and a web framework.
 */

/**
 * The grace period of requests that still run at a stop; container engines kill a process that has not ended after 10
 * s.
 */
const REQUEST_GRACE_MS = 5_000

export interface RunningServer {
  readonly pid: number
  readonly url: string
  readonly dataDir: string
  /** Lets running requests end, then frees the data directory. May be called twice. */
  stop(reason: string): Promise<void>
}

/** Starts a server in this process. It answers when this resolves. */
export const serve = async (options: HostOptions): Promise<RunningServer> => {
  const startedAtMs = performance.now()
  const { config } = configHere(options)
  const { dataDir } = config
  const backend = chooseBackend(config)
  const group = groupOf(config)
  const [{ createApi }, { openStore }] = await Promise.all([
    import("./api/server.ts"),
    import("./store/open.ts"),
  ])
  const { log, secrets } = await startLogging(config)

  const reserve = openReserve(dataDir)
  const rescue = openRescue({ dataDir, reserve, log })
  const store = await rescue.run(() => openStore({ dataDir }))
  warnOfStore(log, store, dataDir)
  try {
    const token = await rescue.run(() => ownToken(config, group, log))
    shareDirectory(dataDir, group)
    secrets.add(token)
    const turns = new Turns()
    const api = createApi({
      log,
      token,
      onConnection: () => turns.arrive(),
      // Only requests ask for these, and there are none before the server listens.
      sandboxes: async () => (await started.opened).sandboxes,
      sessions: async () => (await started.opened).sessions,
      facts: {
        version: version(),
        pid: process.pid,
        installationId: store.installationId,
        dataDir,
        backend: config.backend,
        startedAt: new Date(),
        startedAtMs,
      },
    })
    void import("./repos/lenses.ts").then(({ sweepLenses }) => sweepLenses())
    const url = await listen(api, config)
    await rescue.run(async () => writeLockHolder(dataDir, url, group))
    const durationMs = performance.now() - startedAtMs
    writeOperation(log, "info", { op: "server.start", outcome: "ok", durationMs, url, dataDir })
    const started = startSandboxes({
      ...settingsOf(config, secrets),
      disk: { dataDir, reserve, rescue, defaultBytes: sizeBytes(config.diskLimit) || undefined },
      log,
      secrets,
      backend,
      installation: store.installationId,
      store,
      turns,
      apiPort: Number(new URL(url).port),
      toolbox: (signal) =>
        currentToolbox({
          build: async (call, agent) => await (await toolboxes(options)).ensure(call, agent),
          collect: async (keep, given) => await (await toolboxes(options)).collect(keep, given),
          log,
          signal,
        }),
    })
    const stop = stopOnce(log, async (note) => {
      note({ requestsEnded: await stopApi(api, REQUEST_GRACE_MS) })
      await started.stop()
      await store.close()
    })
    return { pid: process.pid, url, dataDir, stop }
  } catch (error) {
    await store.close()
    throw error
  }
}

/** Logs what the store may have lost. */
const warnOfStore = (
  log: Logger,
  { isRestored, lostPower }: Pick<Store, "isRestored" | "lostPower">,
  dataDir: string,
): void => {
  if (isRestored)
    log.warn(
      { op: "store.open", dataDir },
      "the database was put back from a backup: what it says of running things is not believed",
    )
  if (lostPower)
    log.warn(
      { op: "store.open", dataDir },
      "the machine or its disk stopped while a server ran: the last events may be lost, and the numbers of those to come leap",
    )
}

/** The token of the configuration, or that of the data directory, made if there is none. */
const ownToken = async (
  { token, dataDir }: LoadedConfig["config"],
  group: number | undefined,
  log: Logger,
): Promise<string> => {
  const onReplaced = (earlier: number) => {
    const said = `the server is no longer shared with group ${earlier}: it has a new token, which that group cannot read`
    log.warn({ op: "server.start", dataDir }, said)
  }
  return token ?? (await ensureToken(dataDir, { group, onReplaced }))
}

/** The parts of the configuration that sandboxes and sessions have. */
const settingsOf = (config: LoadedConfig["config"], secrets: Secrets) => ({
  dataDir: config.dataDir,
  environment: process.env,
  policy: policyOf(config),
  keepEventsMs: keptMs(config.keepEvents),
  sessionKeepMs: keptMs(config.sessionKeep) ?? 0,
  keys: openKeys(config.keysFile, secrets),
})

/** Stops a server once, however often it is called. */
const stopOnce = (
  log: Logger,
  work: (note: (fields: OperationFields) => void) => Promise<void>,
): RunningServer["stop"] => {
  let stopped: Promise<void> | undefined
  return (reason) => {
    stopped ??= operation(log, "server.stop", { reason }, work)
    return stopped
  }
}

/** A duration of 0 means for ever. */
const keptMs = (keep: Duration): number | null => durationMs(keep) || null

const groupOf = ({ group }: LoadedConfig["config"]): number | undefined => {
  if (group === undefined) return undefined
  const id = groupNamed(group)
  if (id !== undefined) return id
  throw new BerthError("config.invalid", `this machine has no group ${group}`, {
    details: { path: "group", given: group, allowed: "a group of /etc/group" },
  })
}

/** The configured engine, or else the one that its own programs would use. */
const chooseBackend = ({ backend, image, ...config }: LoadedConfig["config"]): BackendChoice => {
  if (backend === "embedded") return { name: backend }
  const { DOCKER_HOST = DEFAULT_ENGINE } = process.env
  const engine = parseEngineAddress(config.engine ?? DOCKER_HOST)
  if (engine !== undefined) return { name: backend, engine, image }
  const message = `the address of the engine in DOCKER_HOST is not understood: ${DOCKER_HOST}`
  throw new BerthError("config.invalid", message, {
    details: { path: "engine", given: DOCKER_HOST, allowed: "unix:///PATH or tcp://HOST:PORT" },
  })
}

export interface Diagnosis {
  readonly report: DoctorReport
  /** The report as a text for people. */
  render(options: { color: boolean }): string
}

/** Reports what this host offers. */
export const doctor = async (options: HostOptions, signal: AbortSignal): Promise<Diagnosis> => {
  const { dataDir, backend, engine } = configHere(options).config
  const [{ diagnose }, { renderReport }] = await Promise.all([
    import("./doctor/diagnose.ts"),
    import("./doctor/render.ts"),
  ])
  const { env: environment } = process
  const { PATH = "", DOCKER_HOST: dockerHost = DEFAULT_ENGINE } = environment
  const host = { path: PATH, dataDir, backend, dockerHost: engine ?? dockerHost, environment }
  const report = await diagnose(host, signal)
  return { report, render: (how) => renderReport(report, how) }
}

/** The toolboxes of the configured data directory. */
export interface HostToolboxes {
  list(signal: AbortSignal): Promise<ToolboxSummary[]>
  /**
   * Builds the toolbox that this version of Berth brings into sandboxes, with the agents of every toolbox or with this
   * one, unless it is there; removes unused ones. An agent that is not installed yet is installed.
   */
  build(call: BuildCall, agent?: OptionalAgent): Promise<BuiltToolbox>
  /** Like `build`, and removes nothing. */
  ensure(call: BuildCall, agent?: OptionalAgent): Promise<BuiltToolbox>
  /** Removes the toolboxes that nobody uses, except these and the current ones. */
  collect(keep: readonly ToolboxId[], signal: AbortSignal): Promise<ToolboxId[]>
  /** Compares one toolbox, or each, with its build. */
  verify(id: ToolboxId | undefined, signal: AbortSignal): Promise<ToolboxReport[]>
}

export const toolboxes = async (options: HostOptions): Promise<HostToolboxes> => {
  const { dataDir } = configHere(options).config
  refuseForeign(dataDir)
  const [{ openToolboxes }, { openVariants }, { mountedToolboxes }, { ensureDataDirectory }] =
    await Promise.all([
      import("@berth/toolbox/store"),
      import("@berth/toolbox/agents/variants"),
      import("@berth/toolbox/mounted"),
      import("./store/data-directory.ts"),
    ])
  const arch = process.arch === "arm64" ? "arm64" : "x64"
  const root = join(dataDir, "toolbox")
  const store = openToolboxes({ root, arch })
  const place = { root: join(dataDir, "agents"), from: import.meta.dirname }
  const variants = openVariants({ arch, place, environment: process.env })
  const ensure: HostToolboxes["ensure"] = async (call, agent) => {
    ensureDataDirectory(dataDir)
    return await store.build(await variants.inputs(agent, call), call)
  }
  const collect: HostToolboxes["collect"] = async (keep, signal) => {
    const current = await store.present(await variants.installed(signal), { signal })
    // Toolboxes of older versions are removed with the last sandbox that has them.
    return await store.collect(new Set([...keep, ...current, ...(await mountedToolboxes())]))
  }
  return {
    list: (signal) => store.list({ signal }),
    ensure,
    collect,
    build: async (call, agent) => {
      const built = await ensure(call, agent)
      await collect([built.id], call.signal)
      return built
    },
    verify: async (id, signal) => {
      const ids = id === undefined ? await store.ids() : [id]
      if (ids.length === 0) {
        throw new BerthError("toolbox.unknown", `there is no toolbox in ${root}`, {
          details: { directory: root },
        })
      }
      const reports: ToolboxReport[] = []
      for (const each of ids) reports.push(await store.verify(each, { signal }))
      return reports
    },
  }
}

/** The layers of the configured data directory. */
export interface HostLayers {
  list(signal: AbortSignal): Promise<LayersListing>
  /** Repairs what a crash left, and reports other damage; refused while a server works there. */
  verify(signal: AbortSignal): Promise<LayersReport>
}

export const layers = async (options: HostOptions): Promise<HostLayers> => {
  const { dataDir } = configHere(options).config
  refuseForeign(dataDir)
  const [{ openLayersFound }, { lockDataDirectory }] = await Promise.all([
    import("@berth/layers/open"),
    import("./store/lock.ts"),
  ])
  const root = join(dataDir, "layers")
  return {
    list: async (signal) => {
      const found = await openLayersFound(root)
      return (
        (await found?.list({ signal })) ?? {
          stacks: [],
          layers: [],
          pins: [],
          ownerless: [],
          trash: 0,
          bytes: 0,
        }
      )
    },
    verify: async (signal) => {
      const found = await openLayersFound(root)
      if (found === undefined) {
        const checked = { stacks: 0, layers: 0, tops: 0, pins: 0 }
        return { repairs: [], problems: [], perhapsFrozen: [], checked }
      }
      const lock = await lockDataDirectory(dataDir)
      try {
        return await found.verify({ signal })
      } finally {
        lock.release()
      }
    },
  }
}

/** How the sandboxes of the configured data directory booted. */
export interface HostBoots {
  /** The current trace of a sandbox's boot. Without an id: of the sandbox that was made last. */
  trace(sandbox: SandboxId | undefined, signal: AbortSignal): Promise<BootTrace>
}

export const boots = async (options: HostOptions): Promise<HostBoots> => {
  const { dataDir } = configHere(options).config
  refuseForeign(dataDir)
  const [{ findSharedDirectories }, { foundPlaceOfShared }, { readTrace }] = await Promise.all([
    import("./sandboxes/state/shared-directories.ts"),
    import("./sandboxes/state/shared-place.ts"),
    import("@berth/bridge/read-trace"),
  ])
  const found = findSharedDirectories(foundPlaceOfShared(dataDir))
  return {
    trace: async (sandbox, signal) => {
      const wanted = sandbox ?? (await found.latest())
      const shared = wanted && (await found.find(wanted))
      if (shared !== undefined) return await readTrace(shared, signal)
      const which = wanted === undefined ? "no sandbox" : `no sandbox ${wanted}`
      throw new BerthError("not_found", `there is ${which} in ${dataDir}`, { details: { dataDir } })
    },
  }
}

const startLogging = async ({ logLevel, token }: LoadedConfig["config"]) => {
  const { createLogger, standardError } = await import("./logging/logger.ts")
  const secrets = new Secrets()
  if (token !== undefined) secrets.add(token)
  const log = await createLogger({
    level: logLevel,
    pretty: process.stderr.isTTY === true,
    color: !process.env.NO_COLOR && process.env.TERM !== "dumb",
    secrets,
    destination: standardError(),
  })
  exitOnDefect(log)
  return { log, secrets }
}

/** Ends the process after an uncaught defect, and logs it: the state is unknown then. */
const exitOnDefect = (log: Logger): void => {
  process.on("uncaughtException", (err, origin) => {
    log.fatal({ op: "server.crash", outcome: "failed", origin, err }, "server.crash failed")
    process.exit(1)
  })
}

const version = (): string => {
  // The manifest is found from wherever this module was bundled to.
  const manifest = findPackageJSON("..", import.meta.url)
  return JSON.parse(readFileSync(manifest as string, "utf8")).version
}
