import type { Backend, BackendEvent, EngineState, ObservedSandbox } from "@berth/backends/backend"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { SandboxSpec } from "@berth/protocol/sandbox"

/** Called with the name and the sandbox of each call, and awaited before anything is done. */
export type BeforeCall = (call: string, sandbox: SandboxId | undefined) => void | Promise<void>

import { openWatchers } from "@berth/backends/watchers"

/**
 * An engine in memory, which no real one can replace: it waits at every call, fails at any, and is looked at in between.
 */
export class MemoryBackend {
  readonly name = "memory"
  readonly idBase = 0
  readonly #sandboxes = new Map<SandboxId, ObservedSandbox>()
  readonly #before: BeforeCall
  readonly #watchers = openWatchers()

  constructor(before: BeforeCall = () => {}) {
    this.#before = before
  }

  asBackend(): Backend {
    return this as unknown as Backend
  }

  stateOf(sandbox: SandboxId): EngineState | undefined {
    return this.#sandboxes.get(sandbox)?.state
  }

  /** The sandboxes of a workspace that have not ended. */
  liveOf(workspace: Slug): SandboxId[] {
    const all = [...this.#sandboxes.values()]
    const live = all.filter(
      ({ identity, state }) => identity.workspace === workspace && state !== "exited",
    )
    return live.map(({ identity }) => identity.sandbox)
  }

  get all(): readonly ObservedSandbox[] {
    return [...this.#sandboxes.values()]
  }

  /** Adds a sandbox that no store knows. */
  plant(identity: ObservedSandbox["identity"], state: EngineState): void {
    const createdAt = new Date(0).toISOString()
    this.#sandboxes.set(identity.sandbox, { identity, state, createdAt, unheldLimits: [] })
  }

  /** Ends the sandbox's processes as if they had ended by themselves. */
  exit(sandbox: SandboxId): void {
    this.#to(sandbox, "exited")
  }

  async listCaches() {
    return []
  }

  async describe() {
    return { pause: true, layers: true, networks: ["none", "open"] as const }
  }

  async resolveSystem() {
    return { kind: "host" as const }
  }

  async create({ identity }: SandboxSpec): Promise<ObservedSandbox> {
    await this.#before("create", identity.sandbox)
    const others = this.liveOf(identity.workspace)
    if (others.length > 0) throw new Error(`${identity.workspace} has ${others.join(", ")}`)
    this.plant(identity, "created")
    return this.#need(identity.sandbox)
  }

  async start(sandbox: SandboxId): Promise<void> {
    await this.#before("start", sandbox)
    this.#to(sandbox, "running")
  }

  async stop(sandbox: SandboxId): Promise<void> {
    await this.#before("stop", sandbox)
    this.#to(sandbox, "exited")
  }

  async pause(sandbox: SandboxId): Promise<void> {
    await this.#before("pause", sandbox)
    this.#to(sandbox, "paused")
  }

  async resume(sandbox: SandboxId): Promise<void> {
    await this.#before("resume", sandbox)
    this.#to(sandbox, "running")
  }

  async remove(sandbox: SandboxId): Promise<void> {
    await this.#before("remove", sandbox)
    this.#sandboxes.delete(sandbox)
  }

  async list(): Promise<readonly ObservedSandbox[]> {
    await this.#before("list", undefined)
    return this.all
  }

  async inspect(sandbox: SandboxId): Promise<ObservedSandbox | undefined> {
    await this.#before("inspect", sandbox)
    return this.#sandboxes.get(sandbox)
  }

  async logs(): Promise<string> {
    return ""
  }

  watch(signal: AbortSignal) {
    return this.#watchers.watch(signal)
  }

  /** Reports an event, as an engine does on its own. */
  tell(event: BackendEvent): void {
    this.#watchers.emit(event)
  }

  #need(sandbox: SandboxId): ObservedSandbox {
    const found = this.#sandboxes.get(sandbox)
    if (found !== undefined) return found
    throw new BerthError("backend.unknown_sandbox", `there is no ${sandbox}`)
  }

  #to(sandbox: SandboxId, state: EngineState): void {
    this.#sandboxes.set(sandbox, { ...this.#need(sandbox), state })
  }
}
