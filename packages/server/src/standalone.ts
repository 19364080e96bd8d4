import type { BootMode, BootTrace } from "@berth/protocol/boot"
import type { PromptResult } from "@berth/protocol/bridge"
import type { Event, EventBody } from "@berth/protocol/event"
import { newId, type SandboxId } from "@berth/protocol/ids"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { Backend } from "./backends/backend.ts"
import { connectTo } from "./bridge/address.ts"
import { openBridge } from "./bridge/bridge.ts"
import { readTrace } from "./bridge/read-trace.ts"
import type { Logger } from "./logging/logger.ts"
import type { Secrets } from "./logging/secrets.ts"
import { type BackendChoice, openBackend } from "./open-backend.ts"
import { openLinks } from "./sandboxes/links.ts"
import { openRecords } from "./sandboxes/records.ts"
import { openSandboxes } from "./sandboxes/sandboxes.ts"
import type { Toolbox } from "./toolbox/store.ts"

export interface StandaloneOptions {
  /** Where the backend keeps its files. */
  readonly dataDir: string
  /** Where the links to sandboxes lie. */
  readonly links: string
  /** Default: embedded. */
  readonly backend?: BackendChoice
  readonly toolbox: Pick<Toolbox, "id" | "directory">
  readonly log: Logger
  readonly secrets: Secrets
  readonly environment: Readonly<Record<string, string | undefined>>
}

/** Sandboxes without a server and its store: their events are kept in memory. */
export interface Standalone {
  readonly backend: Backend
  /** Resolves when the sandbox has started; it boots on. */
  launch(workspace: WorkspaceSpec, mode: BootMode): Promise<StandaloneSandbox>
  /** Sandboxes that still run go with it. */
  close(): Promise<void>
}

export interface StandaloneSandbox {
  readonly id: SandboxId
  readonly events: readonly Event[]
  /** Resolves at the first event, past or to come, for which it holds. Rejects when the sandbox is gone before. */
  until(holds: (body: EventBody) => boolean): Promise<EventBody>
  trace(): Promise<BootTrace>
  /** Runs a prompt to its end. */
  prompt(text: string): Promise<PromptResult & { readonly output: string }>
  remove(): Promise<void>
}

export const openStandalone = async (
  { dataDir, links: root, backend: choice = { name: "embedded" }, ...rest }: StandaloneOptions,
  signal: AbortSignal,
): Promise<Standalone> => {
  const { toolbox, log, secrets, environment } = rest
  const installation = newId.installation()
  const backend = await openBackend({ backend: choice, installation, dataDir, log }, signal)
  await backend.recover({ signal })
  const sandboxes = openSandboxes({
    ...{ backend, installation, log, secrets, environment },
    links: openLinks({ root, owner: backend.idBase }),
    records: openRecords(root),
    bridges: {
      open: openBridge,
      dial: ({ socket: path }, signal) => connectTo({ path }, signal),
      trace: readTrace,
    },
    toolbox: async () => toolbox,
  })
  const running = new Set<StandaloneSandbox>()

  const start = async (workspace: WorkspaceSpec, mode: BootMode): Promise<StandaloneSandbox> => {
    const id = await sandboxes.create(workspace, mode, signal)
    const kept = sandboxes.kept(id)
    const { heard } = kept
    const session = newId.session()
    const sandbox: StandaloneSandbox = {
      id,
      get events() {
        return heard.events
      },
      until: (holds) => heard.until(holds),
      trace: () => sandboxes.trace(id, signal),
      prompt: async (text) => {
        const prompt = newId.prompt()
        await kept.startPrompt({ prompt, session, text })
        const end = await heard.until(
          (body) => body.type === "prompt.state" && body.prompt === prompt && isOver(body.state),
        )
        const { state, reason } = end as Extract<EventBody, { type: "prompt.state" }>
        const result = { state, ...(reason !== undefined && { reason }) } as PromptResult
        const output = heard.events
          .map(({ body }) =>
            body.type === "message.delta" && body.prompt === prompt ? body.text : "",
          )
          .join("")
        return { ...result, output }
      },
      remove: async () => {
        if (running.delete(sandbox)) await sandboxes.remove(id)
      },
    }
    running.add(sandbox)
    return sandbox
  }

  return {
    backend,
    launch: start,
    close: async () => {
      await Promise.all([...running].map((sandbox) => sandbox.remove()))
      await sandboxes.close()
      await backend.close()
    },
  }
}

const isOver = (state: string): boolean => state !== "queued" && state !== "running"
