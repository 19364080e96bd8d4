import type { BootMode, BootTrace } from "@berth/protocol/boot"
import type { PromptResult } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { Event, EventBody } from "@berth/protocol/event"
import { type InstallationId, newId, type PromptId, type SandboxId } from "@berth/protocol/ids"
import type { WorkspaceSpec } from "@berth/protocol/workspace"
import type { Backend } from "./backends/backend.ts"
import { openEmbedded } from "./backends/embedded/backend.ts"
import { idBase } from "./backends/embedded/id-range.ts"
import { openBridge } from "./bridge/bridge.ts"
import { readTrace } from "./bridge/read-trace.ts"
import type { Logger } from "./logging/logger.ts"
import type { Secrets } from "./logging/secrets.ts"
import { answerAsks } from "./repos/answer-asks.ts"
import { dismiss, launch } from "./sandboxes/launch.ts"
import { openLinks } from "./sandboxes/links.ts"
import { workspaceRepos } from "./sandboxes/repos.ts"
import type { Toolbox } from "./toolbox/store.ts"

export interface StandaloneOptions {
  /** Where the backend keeps its files. */
  readonly directory: string
  /** Where the links to sandboxes lie. */
  readonly links: string
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

/** How long a sandbox has to end in order. */
const STOP_GRACE_MS = 10_000

export const openStandalone = async (
  { directory, links: root, toolbox, log, secrets, environment }: StandaloneOptions,
  signal: AbortSignal,
): Promise<Standalone> => {
  const installation: InstallationId = newId.installation()
  const backend = await openEmbedded({ installation, directory }, { signal })
  await backend.recover({ signal })
  const links = openLinks({ root, owner: idBase(installation) })
  const parts = { backend, links, installation, toolbox }
  const running = new Set<StandaloneSandbox>()

  const start = async (workspace: WorkspaceSpec, mode: BootMode): Promise<StandaloneSandbox> => {
    const link = await launch(parts, { workspace, mode }, signal)
    const { sandbox: id, socket: path, token } = link
    const repos = workspaceRepos(workspace.repos)
    const heard = new Heard()
    const prompts = new Set<PromptId>()
    const over = new AbortController()
    const bridge = openBridge(
      {
        ...{ address: { path }, token, sandbox: id, lastSeen: 0 },
        owns: (prompt) => prompts.has(prompt),
        onEvents: async (events) => heard.add(events),
        onAsk: answerAsks({ sandbox: id, repos, environment, secrets, log }),
        onState: ({ kind }) => {
          if (kind === "up") heard.connected.resolve()
        },
      },
      over.signal,
    )
    const session = newId.session()
    const sandbox: StandaloneSandbox = {
      id,
      events: heard.events,
      until: (holds) => heard.until(holds),
      trace: () => readTrace(link, signal),
      prompt: async (text) => {
        const prompt = newId.prompt()
        prompts.add(prompt)
        await heard.connected.promise
        await bridge.startPrompt({ prompt, session, text })
        const end = await heard.until(
          (body) => body.type === "prompt.state" && body.prompt === prompt && isOver(body.state),
        )
        const { state, reason } = end as Extract<EventBody, { type: "prompt.state" }>
        const result = { state, ...(reason !== undefined && { reason }) } as PromptResult
        return { ...result, output: heard.textOf(prompt) }
      },
      remove: async () => {
        running.delete(sandbox)
        try {
          await dismiss(parts, id, { graceMs: STOP_GRACE_MS })
        } finally {
          over.abort()
          await bridge.closed
          heard.end(new BerthError("backend.unknown_sandbox", `${id} was removed`))
        }
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
      await backend.close()
    },
  }
}

const isOver = (state: string): boolean => state !== "queued" && state !== "running"

/** The events of one sandbox. */
class Heard {
  readonly events: Event[] = []
  readonly connected = Promise.withResolvers<void>()
  readonly #waiting = new Set<{ readonly look: () => void; readonly fail: (why: Error) => void }>()

  add(events: readonly Event[]): void {
    this.events.push(...events)
    for (const { look } of this.#waiting) look()
  }

  end(why: Error): void {
    this.connected.promise.catch(() => {})
    this.connected.reject(why)
    for (const { fail } of this.#waiting) fail(why)
  }

  async until(holds: (body: EventBody) => boolean): Promise<EventBody> {
    const { promise, resolve, reject } = Promise.withResolvers<EventBody>()
    let seen = 0
    const look = () => {
      for (; seen < this.events.length; seen++) {
        const body = this.events[seen]?.body
        if (body && holds(body)) return resolve(body)
      }
    }
    const waiting = { look, fail: reject }
    this.#waiting.add(waiting)
    look()
    try {
      return await promise
    } finally {
      this.#waiting.delete(waiting)
    }
  }

  textOf(prompt: PromptId): string {
    return this.events
      .map(({ body }) => (body.type === "message.delta" && body.prompt === prompt ? body.text : ""))
      .join("")
  }
}
