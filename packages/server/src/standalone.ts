import { join } from "node:path"
import type { Backend } from "@berth/backends/backend"
import type { Layers } from "@berth/layers/layers"
import { openLayers } from "@berth/layers/open"
import type { BootMode, BootTrace } from "@berth/protocol/boot"
import type { PromptResult } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { Event, EventBody } from "@berth/protocol/event"
import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { Toolbox } from "@berth/toolbox/store"
import { bridges } from "./bridges.ts"
import { type Keys, NO_KEYS } from "./keys/keys.ts"
import type { Logger } from "./logging/logger.ts"
import type { Secrets } from "./logging/secrets.ts"
import { type BackendChoice, openBackend } from "./open-backend.ts"
import { DEFAULT_POLICY } from "./sandboxes/deciding/policy.ts"
import type { DiskParts } from "./sandboxes/disk/open.ts"
import type { SandboxConnection, SandboxEvents } from "./sandboxes/keeping/connection.ts"
import { type EventMemory, rememberEvents } from "./sandboxes/keeping/event-memory.ts"
import { openSandboxes, type Sandboxes } from "./sandboxes/sandboxes.ts"
import { systemClock } from "./sandboxes/state/clock.ts"
import { openRecords } from "./sandboxes/state/records.ts"
import { openSharedDirectories } from "./sandboxes/state/shared-directories.ts"
import { openStored } from "./sessions/stored.ts"
import { openStore, type Store } from "./store/open.ts"

export interface StandaloneOptions {
  /** The directory for the backend's files. */
  readonly dataDir: string
  /** The place of the directories that sandboxes share with the server. */
  readonly shared: string
  /** Default: embedded. */
  readonly backend?: BackendChoice
  readonly toolbox: Pick<Toolbox, "id" | "directory">
  readonly log: Logger
  readonly secrets: Secrets
  readonly keys?: Keys
  readonly environment: Readonly<Record<string, string | undefined>>
  /** The reserve that a server gives up when its disk is full. Default: none. */
  readonly disk?: DiskParts
}

const NEVER_IDLE = { ...DEFAULT_POLICY, pauseAfterMs: null, stopAfterMs: null }

/** Sandboxes without a server: their events are kept in memory. */
export interface Standalone {
  readonly backend: Backend
  readonly sandboxes: Sandboxes
  /** Resolves when the sandbox has started; it boots on. */
  launch(workspace: WorkspaceSpec, mode: BootMode): Promise<StandaloneSandbox>
  /** Removes the sandboxes that still run. */
  close(): Promise<void>
}

export interface StandaloneSandbox {
  readonly id: SandboxId
  readonly events: readonly Event[]
  /**
   * Resolves at the first event, past or to come, for which `holds` is true. Rejects when the sandbox is gone before.
   */
  until(holds: (body: EventBody) => boolean): Promise<EventBody>
  trace(): Promise<BootTrace>
  /** Runs a prompt to its end. */
  prompt(text: string): Promise<PromptResult & { readonly output: string }>
  remove(): Promise<void>
}

export const openStandalone = async (
  options: StandaloneOptions,
  signal: AbortSignal,
): Promise<Standalone> => {
  const { dataDir, backend: choice = { name: "embedded" }, log, disk } = options
  const store = await openStore({ dataDir })
  const installation = store.installationId
  const backend = await openBackend({ backend: choice, installation, dataDir, log }, signal)
  await backend.repair({ signal })
  const layers = await openLayers({ root: join(dataDir, "layers"), idBase: backend.idBase })
  const { events, memoryOf } = rememberEvents(openStored({ store, clock: systemClock }).events)
  const sandboxes = await openAlone(options, { store, backend, layers, events })
  // Halted sandboxes are resumed from here on.
  if (disk !== undefined) await sandboxes.adopt(signal)
  const launched = new Launched({ sandboxes, memoryOf, signal })
  return {
    backend,
    sandboxes,
    launch: (workspace, mode) => launched.launch(workspace, mode),
    close: async () => {
      await launched.removeAll()
      await sandboxes.close()
      await layers.close()
      await backend.close()
      await store.close()
    },
  }
}

interface AloneParts {
  readonly store: Store
  readonly backend: Backend
  readonly layers: Layers
  readonly events: SandboxEvents
}

const openAlone = (
  options: StandaloneOptions,
  { store, backend, layers, events }: AloneParts,
): Promise<Sandboxes> => {
  const { shared: root, toolbox, keys = NO_KEYS, disk } = options
  return openSandboxes({
    backend,
    layers,
    store,
    installation: store.installationId,
    log: options.log,
    secrets: options.secrets,
    environment: options.environment,
    keys,
    policy: NEVER_IDLE,
    clock: systemClock,
    at: () => {},
    shortage: async () => undefined,
    ...(disk && { disk }),
    sharedDirectories: openSharedDirectories({ root, owner: backend.idBase }),
    records: openRecords(root),
    bridges,
    events,
    toolbox: async () => toolbox,
  })
}

interface LaunchedParts {
  readonly sandboxes: Sandboxes
  readonly memoryOf: (sandbox: SandboxId) => EventMemory
  readonly signal: AbortSignal
}

/** The sandboxes that were launched and not removed yet, each with a workspace of its own. */
class Launched {
  readonly #parts: LaunchedParts
  readonly #running = new Set<StandaloneSandbox>()
  readonly #slugs = new Set<Slug>()

  constructor(parts: LaunchedParts) {
    this.#parts = parts
  }

  async launch(workspace: WorkspaceSpec, mode: BootMode): Promise<StandaloneSandbox> {
    const { sandboxes, memoryOf, signal } = this.#parts
    const own = this.#alone(workspace)
    const { sandbox: id } = await sandboxes.workspaces.up(own, { mode }, signal)
    const memory = memoryOf(id)
    void sandboxes.running.gone(id, signal).then(
      () => memory.end(new BerthError("backend.unknown_sandbox", `${id} has ended`)),
      () => {},
    )
    const sandbox: StandaloneSandbox = {
      id,
      get events() {
        return memory.events
      },
      until: (holds) => memory.until(holds),
      trace: () => sandboxes.views.trace(id, signal),
      prompt: openPrompt(sandboxes.running.connection(id), memory),
      remove: async () => {
        if (!this.#running.delete(sandbox)) return
        await sandboxes.requests.remove(id, { force: true })
        this.#slugs.delete(own.slug)
      },
    }
    this.#running.add(sandbox)
    return sandbox
  }

  async removeAll(): Promise<void> {
    await Promise.all([...this.#running].map((sandbox) => sandbox.remove()))
  }

  /** Gives each sandbox a workspace of its own: two sandboxes of one workspace would be one. */
  #alone(workspace: WorkspaceSpec): WorkspaceSpec {
    let { slug } = workspace
    for (let count = 2; this.#slugs.has(slug); count += 1)
      slug = Slug.parse(`${workspace.slug}-${count}`)
    this.#slugs.add(slug)
    return { ...workspace, slug }
  }
}

/** Prompts of one sandbox, all in one session. */
const openPrompt = (
  connection: SandboxConnection,
  memory: EventMemory,
): StandaloneSandbox["prompt"] => {
  const session = newId.session()
  return async (text) => {
    const prompt = newId.prompt()
    await connection.startPrompt({ prompt, session, text })
    const end = await memory.until(
      (body) => body.type === "prompt.state" && body.prompt === prompt && isOver(body.state),
    )
    const { state, reason } = end as Extract<EventBody, { type: "prompt.state" }>
    const result = { state, ...(reason !== undefined && { reason }) } as PromptResult
    const output = memory.events
      .map(({ body }) => (body.type === "message.delta" && body.prompt === prompt ? body.text : ""))
      .join("")
    return { ...result, output }
  }
}

const isOver = (state: string): boolean => state !== "queued" && state !== "running"
