import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { Backend } from "./backends/backend.ts"
import { openShortage } from "./host/shortage.ts"
import type { Keys } from "./keys/keys.ts"
import type { Layers } from "./layers/layers.ts"
import { type OperationFields, operation } from "./logging/operation.ts"
import type { Secrets } from "./logging/secrets.ts"
import { type BackendStart, openBackend } from "./open-backend.ts"
import type { Policy } from "./sandboxes/deciding/decide.ts"
import type { DiskParts } from "./sandboxes/disk/open.ts"
import { NO_RESCUE } from "./sandboxes/disk/rescue.ts"
import type { SandboxesParts } from "./sandboxes/rooms.ts"
import { systemClock } from "./sandboxes/state/clock.ts"
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
const FIRST_RETRY_MS = 500
const LONGEST_RETRY_MS = 30_000

/**
 * Opens the backend, repairs what a crash left and takes up running sandboxes, while the API answers already. A host
 * that cannot run sandboxes has a server all the same: its log, its API and `berth doctor` say what is missing.
 */
export const startSandboxes = (start: SandboxesStart) => {
  const { installation, dataDir, log, secrets, environment, keys } = start
  const ended = new AbortController()
  const { signal } = ended
  let closeBackend = async () => {}
  let closeSandboxes = async () => {}
  const closeAll = async () => {
    const closing = [closeSandboxes, closeBackend]
    closeSandboxes = async () => {}
    closeBackend = async () => {}
    for (const close of closing) await close()
  }
  const openOnce = async (note: (fields: OperationFields) => void) => {
    const [backend, { bridges }, { openSandboxes }, { openSessions }, { openStored }] =
      await Promise.all([
        openBackend(start, signal),
        import("./bridges.ts"),
        import("./sandboxes/sandboxes.ts"),
        import("./sessions/sessions.ts"),
        import("./sessions/stored.ts"),
      ])
    closeBackend = backend.close
    for (const { sandbox, failure: err } of await backend.recover({ signal }))
      log.warn(
        { op: "backend.recover", sandbox, err },
        "recovering a sandbox failed; it is tried again",
      )
    note({ backend: backend.name })
    const [{ openLayers }, { openEndProcesses }, { openListerOf }, { openLinks }, { openRecords }] =
      await Promise.all([
        import("./layers/open.ts"),
        import("./sandboxes/requests/end-processes.ts"),
        import("./sandboxes/state/groups.ts"),
        import("./sandboxes/state/links.ts"),
        import("./sandboxes/state/records.ts"),
      ])
    const layers = await openLayers({
      root: join(dataDir, "layers"),
      idBase: backend.idBase,
      ...(start.at && { at: start.at }),
    })
    closeSandboxes = layers.close
    note(await repairLayers(layers, backend, signal))
    const root = join(dataDir, "links")
    const logsDir = join(dataDir, "logs")
    const stored = openStored({
      store: start.store,
      clock: systemClock,
      logsDir,
      ...(start.turns && { turns: start.turns }),
    })
    const sandboxes = await openSandboxes({
      backend,
      layers,
      store: start.store,
      installation,
      log,
      secrets,
      environment,
      keys,
      policy: start.policy,
      clock: systemClock,
      at: start.at ?? (() => {}),
      shortage: openShortage(dataDir),
      apiPort: start.apiPort,
      ...(start.disk && { disk: start.disk }),
      links: openLinks({ root, owner: backend.idBase }),
      records: openRecords(root),
      bridges,
      events: stored.events,
      toolbox: start.toolbox(signal),
    })
    closeSandboxes = async () => {
      await sandboxes.close()
      await layers.close()
    }
    await sandboxes.adopt(signal)
    const sessions = await openSessions({
      stored,
      sandboxes,
      keys,
      clock: systemClock,
      log,
      store: start.store,
      keepEventsMs: start.keepEventsMs,
      sessionKeepMs: start.sessionKeepMs,
      endProcesses: openEndProcesses(openListerOf(dataDir)),
      at: start.at ?? (() => {}),
    })
    closeSandboxes = async () => {
      await sessions.shutDown()
      await sandboxes.close()
      await layers.close()
    }
    return { sandboxes, sessions }
  }
  const openOrClose = async (note: (fields: OperationFields) => void) => {
    try {
      return await openOnce(note)
    } catch (thrown) {
      await closeAll()
      throw thrown
    }
  }
  const { rescue = NO_RESCUE } = start.disk ?? {}
  const open = () => {
    const opening = operation(log, "backend.open", {}, (note) =>
      rescue.run(() => openOrClose(note)),
    )
    // The log has the reason already, and requests for sandboxes get it, too.
    opening.catch(() => {})
    return opening
  }
  /** Whether the host lacks something: a person who installs it starts the server again. */
  const isLacking = ({ code }: BerthError) =>
    start.backend.name === "embedded" && code === "backend.unavailable"
  let opened = open()
  /** Opens again after a failure: an engine may come up after the server. Until then, requests get the last failure. */
  const reopen = async () => {
    for (let waitMs = FIRST_RETRY_MS; ; waitMs = Math.min(2 * waitMs, LONGEST_RETRY_MS)) {
      const failure = await opened.then(() => undefined, errorOf)
      if (failure === undefined || failure.retry === "never" || isLacking(failure)) return
      await closeAll()
      await pause(waitMs, undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) return
      const next = open()
      await next.catch(() => {})
      opened = next
    }
  }
  const reopened = reopen()
  const stop = async () => {
    ended.abort(new BerthError("server.stopping", "the server is stopping"))
    await reopened
    await closeAll()
  }
  return {
    get opened() {
      return opened
    },
    stop,
  }
}

const errorOf = (thrown: unknown): BerthError | undefined =>
  thrown instanceof BerthError ? thrown : undefined

/** Finishes what a crash cut short of the workspaces' files, and resumes sandboxes that it left frozen. */
const repairLayers = async (layers: Layers, backend: Backend, signal: AbortSignal) => {
  const isAlive = async (sandbox: SandboxId) => {
    const state = (await backend.inspect(sandbox, { signal }))?.state
    return state !== undefined && state !== "exited"
  }
  const found = await layers.verify({ signal, isAlive, trees: false, wait: false })
  for (const sandbox of found.perhapsFrozen) {
    if (await isAlive(sandbox)) await backend.resume(sandbox, { signal })
  }
  return { layersRepaired: found.repairs.length, layersDamaged: found.problems.length }
}
