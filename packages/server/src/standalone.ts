import { join } from "node:path"
import type { BootMode, BootTrace } from "@berth/protocol/boot"
import type { PromptResult } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { Event, EventBody } from "@berth/protocol/event"
import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { Backend } from "./backends/backend.ts"
import { bridges } from "./bridges.ts"
import { type Keys, NO_KEYS } from "./keys/keys.ts"
import { openLayers } from "./layers/open.ts"
import type { Logger } from "./logging/logger.ts"
import type { Secrets } from "./logging/secrets.ts"
import { type BackendChoice, openBackend } from "./open-backend.ts"
import { DEFAULT_POLICY } from "./sandboxes/deciding/policy.ts"
import type { DiskParts } from "./sandboxes/disk/open.ts"
import { rememberEvents } from "./sandboxes/keeping/event-memory.ts"
import { openSandboxes, type Sandboxes } from "./sandboxes/sandboxes.ts"
import { systemClock } from "./sandboxes/state/clock.ts"
import { openRecords } from "./sandboxes/state/records.ts"
import { openSharedDirectories } from "./sandboxes/state/shared-directories.ts"
import { openStored } from "./sessions/stored.ts"
import { openStore } from "./store/open.ts"
import type { Toolbox } from "./toolbox/store.ts"

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
  { dataDir, shared: root, backend: choice = { name: "embedded" }, ...rest }: StandaloneOptions,
  signal: AbortSignal,
): Promise<Standalone> => {
  const { toolbox, log, secrets, environment, keys = NO_KEYS, disk } = rest
  const store = await openStore({ dataDir })
  const installation = store.installationId
  const backend = await openBackend({ backend: choice, installation, dataDir, log }, signal)
  await backend.recover({ signal })
  const layers = await openLayers({ root: join(dataDir, "layers"), idBase: backend.idBase })
  const { events, memoryOf } = rememberEvents(openStored({ store, clock: systemClock }).events)
  const sandboxes = await openSandboxes({
    backend,
    layers,
    store,
    installation,
    log,
    secrets,
    environment,
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
  // Somebody has to let those go on that were halted.
  if (disk !== undefined) await sandboxes.adopt(signal)
  const running = new Set<StandaloneSandbox>()
  const slugs = new Set<Slug>()

  /** Gives each sandbox a workspace of its own: two sandboxes of one workspace would be one. */
  const alone = (workspace: WorkspaceSpec): WorkspaceSpec => {
    let { slug } = workspace
    for (let count = 2; slugs.has(slug); count += 1) slug = Slug.parse(`${workspace.slug}-${count}`)
    slugs.add(slug)
    return { ...workspace, slug }
  }

  const start = async (workspace: WorkspaceSpec, mode: BootMode): Promise<StandaloneSandbox> => {
    const own = alone(workspace)
    const { sandbox: id } = await sandboxes.up(own, { mode }, signal)
    const connection = sandboxes.kept(id)
    const memory = memoryOf(id)
    void sandboxes.gone(id, signal).then(
      () => memory.end(new BerthError("backend.unknown_sandbox", `${id} has ended`)),
      () => {},
    )
    const session = newId.session()
    const sandbox: StandaloneSandbox = {
      id,
      get events() {
        return memory.events
      },
      until: (holds) => memory.until(holds),
      trace: () => sandboxes.trace(id, signal),
      prompt: async (text) => {
        const prompt = newId.prompt()
        await connection.startPrompt({ prompt, session, text })
        const end = await memory.until(
          (body) => body.type === "prompt.state" && body.prompt === prompt && isOver(body.state),
        )
        const { state, reason } = end as Extract<EventBody, { type: "prompt.state" }>
        const result = { state, ...(reason !== undefined && { reason }) } as PromptResult
        const output = memory.events
          .map(({ body }) =>
            body.type === "message.delta" && body.prompt === prompt ? body.text : "",
          )
          .join("")
        return { ...result, output }
      },
      remove: async () => {
        if (!running.delete(sandbox)) return
        await sandboxes.remove(id, { force: true })
        slugs.delete(own.slug)
      },
    }
    running.add(sandbox)
    return sandbox
  }

  return {
    backend,
    sandboxes,
    launch: start,
    close: async () => {
      await Promise.all([...running].map((sandbox) => sandbox.remove()))
      await sandboxes.close()
      await layers.close()
      await backend.close()
      await store.close()
    },
  }
}

const isOver = (state: string): boolean => state !== "queued" && state !== "running"
