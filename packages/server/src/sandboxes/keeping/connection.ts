import type { BootMode } from "@berth/protocol/boot"
import type { PromptStanding, PromptStart } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { Event, EventBody } from "@berth/protocol/event"
import type { PromptId, SandboxId, Slug } from "@berth/protocol/ids"
import type { BootSummary } from "@berth/protocol/sandboxes"
import type { AskAnswer } from "@berth/protocol/session"
import type { AgentSpec } from "@berth/protocol/workspace"
import { HostPorts } from "../../host-ports/host-ports.ts"
import type { Keys } from "../../keys/keys.ts"
import type { Logger } from "../../logging/logger.ts"
import type { Secrets } from "../../logging/secrets.ts"
import { answerHostRequests } from "../../repos/answer-host-requests.ts"
import type { SandboxRecord } from "../state/records.ts"
import { workspaceRepos } from "../state/repos.ts"
import type { SharedDirectory } from "../state/shared-directories.ts"
import { begunBoot, follow, isBootOver, summaryOf } from "./boot-summary.ts"
import type { Bridges, OpenBridge } from "./bridges.ts"

/** The store of the events that sandboxes send. */
export interface SandboxEvents {
  /** Stores new events, in order. When it resolves, the sandbox may forget them. */
  take(sandbox: SandboxId, events: readonly Event[]): Promise<void>
  /** The number of the last event that is stored. */
  lastSeen(sandbox: SandboxId): Promise<number>
  /** The prompts among these that have ended. */
  ended(prompts: readonly PromptId[]): Promise<PromptId[]>
  /** Tells the sessions of a sandbox about events of the sandbox itself. */
  tell(sandbox: SandboxId, bodies: readonly EventBody[]): Promise<void>
  /** Closes the sessions of a workspace that is being removed. May be called twice. */
  closeSessions(workspace: Slug): Promise<void>
}

export interface ConnectionParts {
  readonly bridges: Bridges
  readonly events: SandboxEvents
  readonly log: Logger
  readonly secrets: Secrets
  /** The server's own environment, for the host's git. */
  readonly environment: Readonly<Record<string, string | undefined>>
  readonly keys: Keys
  /** The port on which this server listens: no sandbox may reach it. */
  readonly apiPort?: number | undefined
  /** Called when the boot is ready, or never will be. May be called again after a crash. */
  readonly onBootOver: (sandbox: SandboxId, boot: BootSummary) => Promise<void>
  /** Called when the sandbox is not reached: its engine should be asked about it. */
  readonly onDown: (sandbox: SandboxId) => void
  readonly onUp: (sandbox: SandboxId) => void
}

/** The state of a sandbox when its connection begins. */
interface ConnectionStart {
  readonly shared: SharedDirectory
  readonly record: SandboxRecord
  readonly lastSeen: number
  /** undefined: not known, as after a restart. */
  readonly boot: BootSummary | undefined
}

/** A connected sandbox: from its own start, or from the server's, until it is gone. */
export class SandboxConnection {
  readonly shared: SharedDirectory
  /** The agent inside, whatever the workspace wants by now. */
  readonly agent: AgentSpec["kind"]
  /** The ports of the host that the sandbox reaches. */
  readonly hostPorts: readonly number[]
  readonly #carried: HostPorts
  readonly #parts: ConnectionParts
  readonly #mode: BootMode
  readonly #bridge: OpenBridge
  readonly #over = new AbortController()
  readonly #connected = Promise.withResolvers<void>()
  readonly #bootOver = Promise.withResolvers<void>()
  #boot: BootSummary | undefined
  #isBootOverTold = false
  #hasExited = false
  #complaint: BerthError["code"] | undefined
  /** Since when there is no connection, by the monotonic clock. */
  #silentSinceMs: number | undefined = performance.now()
  #silentFor: BerthError | undefined

  constructor(parts: ConnectionParts, { shared, record, lastSeen, boot }: ConnectionStart) {
    const { sandbox, socket: path, token } = shared
    const { environment, secrets, log, apiPort } = parts
    const repos = workspaceRepos(record.workspace.repos)
    const readKeys = () => parts.keys.read(record.workspace.agent.keys)
    const { hostPorts } = record.workspace
    const carried = new HostPorts({ sandbox, ports: hostPorts, apiPort, log })
    const connectHostPort = carried.connect.bind(carried)
    this.hostPorts = hostPorts
    this.#carried = carried
    this.shared = shared
    this.agent = record.workspace.agent.kind
    this.#parts = parts
    this.#mode = record.mode
    this.#boot = boot
    this.#connected.promise.catch(() => {})
    this.#bootOver.promise.catch(() => {})
    this.#bridge = parts.bridges.open(
      {
        address: { path },
        token,
        sandbox,
        lastSeen,
        onEvents: (events) => this.#take(events),
        onHostRequest: answerHostRequests({
          sandbox,
          repos,
          environment,
          secrets,
          log,
          readKeys,
          connectHostPort,
        }),
        onState: ({ kind, reason }) => {
          if (reason?.retry === "never") this.#complain(reason)
          if (kind === "up") {
            this.#connected.resolve()
            parts.onUp(sandbox)
          }
          this.#silentSinceMs =
            kind === "up" ? undefined : (this.#silentSinceMs ?? performance.now())
          if (kind === "down") this.#silentFor = reason
          if (kind === "down" && this.#hasExited) this.#over.abort()
          else if (kind === "down") parts.onDown(sandbox)
        },
      },
      this.#over.signal,
    )
  }

  /** The progress of the boot, if the sandbox has reported it. */
  get boot(): BootSummary | undefined {
    return this.#boot
  }

  /** How long there has been no connection to the sandbox, and why; undefined: it is connected. */
  get silence(): { readonly forMs: number; readonly reason: BerthError | undefined } | undefined {
    const sinceMs = this.#silentSinceMs
    if (sinceMs === undefined) return undefined
    return { forMs: performance.now() - sinceMs, reason: this.#silentFor }
  }

  /** Asks the sandbox for its boot; it may not answer. */
  async readBoot(signal: AbortSignal): Promise<void> {
    this.#boot = summaryOf(await this.#parts.bridges.trace(this.shared, signal))
  }

  /** Resolves when the boot is ready or never will be. */
  async booted(signal: AbortSignal): Promise<void> {
    if (this.#boot === undefined) await this.readBoot(signal).catch(() => {})
    if (this.#boot && isBootOver(this.#boot)) return
    await this.#bootOver.promise
  }

  /** Resolves with the first connection. Rejects when there will be none. */
  get connected(): Promise<void> {
    return this.#connected.promise
  }

  /** Starts a prompt, after the first connection. */
  async startPrompt(start: PromptStart): Promise<PromptStanding> {
    await this.connected
    return await this.#bridge.startPrompt(start)
  }

  stopPrompt(prompt: PromptId): Promise<PromptStanding> {
    return this.#bridge.stopPrompt(prompt)
  }

  async answerPrompt(prompt: PromptId, answer: AskAnswer): Promise<void> {
    await this.#bridge.answerPrompt(prompt, answer)
  }

  /** The sandbox's processes are gone: no new connection is made, but what it sent is read to its end. */
  exited(): void {
    this.#hasExited = true
    if (this.#bridge.state.kind !== "up") this.#over.abort()
    void this.#bridge.closed.then(() => this.#end("has ended"))
  }

  /** Closes the connection; the sandbox goes on. May be called twice. */
  async close(why: string): Promise<void> {
    this.#over.abort()
    await this.#bridge.closed
    this.#end(why)
  }

  async #take(events: readonly Event[]): Promise<void> {
    for (const { body } of events) {
      // After a restart the boot is not known; a sandbox that reports on its boot is booting.
      if (body.type.startsWith("boot.")) this.#boot ??= begunBoot(this.#mode)
      if (this.#boot) this.#boot = follow(this.#boot, body)
    }
    // The consequences of the events come first: once the events are stored, they do not come again.
    if (!this.#isBootOverTold && this.#boot !== undefined && isBootOver(this.#boot)) {
      await this.#parts.onBootOver(this.shared.sandbox, this.#boot)
      this.#isBootOverTold = true
    }
    await this.#parts.events.take(this.shared.sandbox, events)
    if (this.#isBootOverTold) this.#bootOver.resolve()
  }

  /** Logs each reason once: the connection is tried again and again. */
  #complain(err: BerthError): void {
    if (this.#complaint === err.code) return
    this.#complaint = err.code
    const { sandbox } = this.shared
    this.#parts.log.warn({ op: "bridge.open", sandbox, code: err.code, err }, "bridge.open failed")
  }

  #end(why: string): void {
    this.#carried.close()
    const message = `${this.shared.sandbox} ${why}`
    const error = new BerthError("backend.unknown_sandbox", message)
    this.#connected.reject(error)
    this.#bootOver.reject(error)
  }
}
