import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import type { Backend } from "@berth/backends/backend"
import { backoffMs } from "@berth/host/backoff"
import { openShortage } from "@berth/host/shortage"
import type { Layers } from "@berth/layers/layers"
import { BerthError } from "@berth/protocol/errors"
import type { Keys } from "./keys/keys.ts"
import { type OperationFields, operation } from "./logging/operation.ts"
import type { Secrets } from "./logging/secrets.ts"
import { type BackendStart, openBackend } from "./open-backend.ts"
import { openOwnLayers } from "./open-own-layers.ts"
import type { Policy } from "./sandboxes/deciding/decide.ts"
import type { DiskParts } from "./sandboxes/disk/open.ts"
import { NO_RESCUE } from "./sandboxes/disk/rescue.ts"
import type { SandboxesParts } from "./sandboxes/rooms.ts"
import type { Sandboxes } from "./sandboxes/sandboxes.ts"
import { systemClock } from "./sandboxes/state/clock.ts"
import { moveEarlierShared, placeOfShared } from "./sandboxes/state/shared-place.ts"
import type { openSessions } from "./sessions/sessions.ts"
import type { Stored } from "./sessions/stored.ts"
import type { Store } from "./store/open.ts"

export interface SandboxesStart extends BackendStart {
  readonly store: Pick<Store, "db" | "durably" | "compact">
  readonly policy: Policy
  /** The guard that keeps sandboxes from filling the disk. */
  readonly disk?: DiskParts
  readonly secrets: Secrets
  /** The server's own environment, for the host's git. */
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly keys: Keys
  /** The port on which the server listens: no sandbox may reach it. */
  readonly apiPort?: number
  /** How long the events of sessions are kept; null: for ever. */
  readonly keepEventsMs: number | null
  readonly sessionKeepMs: number
  /** Default: turns of their own. */
  readonly turns?: Stored["turns"]
  /** Gives the toolbox of new sandboxes, until the signal fires. */
  readonly toolbox: (signal: AbortSignal) => SandboxesParts["toolbox"]
}

/** Engines start within seconds of the server, or a person starts them. */
const RETRY = { firstMs: 500, mostMs: 30_000 }

/** The files of sandboxes that nobody uses are repaired when the server has answered its first requests. */
const REPAIR_AFTER_MS = 2_000

/** The backend, layers, sandboxes and sessions, which open while the API answers already. */
export interface StartedSandboxes {
  /** The last attempt to open them. */
  readonly opened: Promise<Opened>
  /** Closes everything. The sandboxes run on. */
  stop(): Promise<void>
}

/**
 * Opens the backend, repairs what a crash left and takes up running sandboxes, while the API answers already. A host
 * that cannot run sandboxes has a server all the same: its log, its API and `berth doctor` say what is missing.
 */
export const startSandboxes = (start: SandboxesStart): StartedSandboxes =>
  new OpeningSandboxes(start)

class OpeningSandboxes implements StartedSandboxes {
  readonly #start: SandboxesStart
  readonly #closers = new Closers()
  readonly #ended = new AbortController()
  readonly #reopened: Promise<void>
  #opened: Promise<Opened>

  constructor(start: SandboxesStart) {
    this.#start = start
    this.#opened = this.#open()
    this.#reopened = this.#reopen()
  }

  get opened(): Promise<Opened> {
    return this.#opened
  }

  async stop(): Promise<void> {
    this.#ended.abort(new BerthError("server.stopping", "the server is stopping"))
    await this.#reopened
    await this.#closers.close()
  }

  #open(): Promise<Opened> {
    const { log, disk } = this.#start
    const { rescue = NO_RESCUE } = disk ?? {}
    const opening = operation(log, "backend.open", {}, (note) =>
      rescue.run(() => this.#openOrClose(note)),
    )
    // The log has the reason already, and requests for sandboxes get it, too.
    opening.catch(() => {})
    return opening
  }

  async #openOrClose(note: Note): Promise<Opened> {
    try {
      return await openAll(this.#start, this.#closers, note, this.#ended.signal)
    } catch (thrown) {
      await this.#closers.close()
      throw thrown
    }
  }

  /** Opens again after a failure: an engine may come up after the server. Until then, requests get the last failure. */
  async #reopen(): Promise<void> {
    const { signal } = this.#ended
    for (let failures = 1; ; failures += 1) {
      const failure = await this.#opened.then(() => undefined, errorOf)
      if (failure === undefined || failure.retry === "never" || this.#isLacking(failure)) return
      await this.#closers.close()
      await pause(backoffMs(failures, RETRY), undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return
      const next = this.#open()
      await next.catch(() => {})
      this.#opened = next
    }
  }

  /** Whether the host lacks something: a person who installs it starts the server again. */
  #isLacking({ code }: BerthError): boolean {
    return this.#start.backend.name === "embedded" && code === "backend.unavailable"
  }
}

/** Closes what was opened, the last first. */
class Closers {
  #all: (() => Promise<void>)[] = []

  add(close: () => Promise<void>): void {
    this.#all.unshift(close)
  }

  /** May be called twice. */
  async close(): Promise<void> {
    const closing = this.#all
    this.#all = []
    for (const close of closing) await close()
  }
}

type Note = (fields: OperationFields) => void

/** The sessions of a server, which closes them. */
type OwnSessions = Awaited<ReturnType<typeof openSessions>>

interface Opened {
  readonly sandboxes: Sandboxes
  readonly sessions: OwnSessions
}

/** Opens everything once. The closers close what was opened, also after a failure. */
const openAll = async (
  start: SandboxesStart,
  closers: Closers,
  note: Note,
  signal: AbortSignal,
): Promise<Opened> => {
  // The backend finds the shared directories of running sandboxes at their place.
  moveEarlierShared(start.dataDir)
  const [backend, { openStored }] = await Promise.all([
    openBackend(start, signal),
    import("./sessions/stored.ts"),
    // Loaded while the backend opens.
    import("./bridges.ts"),
    import("./sandboxes/sandboxes.ts"),
    import("./sessions/sessions.ts"),
  ])
  closers.add(backend.close)
  await repairBackend(start, backend, signal)
  note({ backend: backend.name })
  const layers = await openOwnLayers(start, backend, signal)
  closers.add(layers.close)
  const stored = openStored({
    store: start.store,
    clock: systemClock,
    logsDir: join(start.dataDir, "logs"),
    ...(start.turns && { turns: start.turns }),
  })
  const sandboxes = await openSandboxesOf(start, { backend, layers, stored }, signal)
  closers.add(() => sandboxes.close())
  await sandboxes.adopt(signal)
  // Layers that a crash left half-done are repaired soon, too, if nothing uses them.
  setTimeout(() => void layers.repaired().catch(() => {}), REPAIR_AFTER_MS).unref()
  const sessions = await openSessionsOf(start, { stored, sandboxes })
  closers.add(() => sessions.shutDown())
  return { sandboxes, sessions }
}

/** Has the backend repair what a crash left of its sandboxes. A sandbox that fails is tried again. */
const repairBackend = async (
  { log }: SandboxesStart,
  backend: Backend,
  signal: AbortSignal,
): Promise<void> => {
  for (const { sandbox, failure: err } of await backend.repair({ signal }))
    log.warn({ op: "backend.repair", sandbox, err }, "repairing a sandbox failed; trying again")
}

interface SandboxesBase {
  readonly backend: Backend
  readonly layers: Layers
  readonly stored: Stored
}

const openSandboxesOf = async (
  start: SandboxesStart,
  { backend, layers, stored }: SandboxesBase,
  signal: AbortSignal,
): Promise<Sandboxes> => {
  const { dataDir } = start
  const root = placeOfShared(dataDir)
  const [{ bridges }, { openSandboxes }, { openSharedDirectories }, { openRecords }] =
    await Promise.all([
      import("./bridges.ts"),
      import("./sandboxes/sandboxes.ts"),
      import("./sandboxes/state/shared-directories.ts"),
      import("./sandboxes/state/records.ts"),
    ])
  return await openSandboxes({
    backend,
    layers,
    store: start.store,
    installation: start.installation,
    log: start.log,
    secrets: start.secrets,
    environment: start.environment,
    keys: start.keys,
    policy: start.policy,
    clock: systemClock,
    at: start.at ?? (() => {}),
    shortage: openShortage(dataDir),
    apiPort: start.apiPort,
    ...(start.disk && { disk: start.disk }),
    sharedDirectories: openSharedDirectories({ root, owner: backend.idBase }),
    records: openRecords(root),
    bridges,
    events: stored.events,
    toolbox: start.toolbox(signal),
  })
}

const openSessionsOf = async (
  start: SandboxesStart,
  { stored, sandboxes }: { readonly stored: Stored; readonly sandboxes: Sandboxes },
): Promise<OwnSessions> => {
  const [sessions, { openEndProcesses }, { openListerOf }] = await Promise.all([
    import("./sessions/sessions.ts"),
    import("./sandboxes/requests/end-processes.ts"),
    import("./sandboxes/state/groups.ts"),
  ])
  return await sessions.openSessions({
    stored,
    sandboxes,
    keys: start.keys,
    clock: systemClock,
    log: start.log,
    store: start.store,
    keepEventsMs: start.keepEventsMs,
    sessionKeepMs: start.sessionKeepMs,
    endProcesses: openEndProcesses(openListerOf(start.dataDir)),
    at: start.at ?? (() => {}),
  })
}

const errorOf = (thrown: unknown): BerthError | undefined =>
  thrown instanceof BerthError ? thrown : undefined
