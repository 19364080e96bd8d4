import type { Backend, ObservedSandbox } from "@berth/backends/backend"
import type { Logger } from "../../logging/logger.ts"
import { type OperationFields, operation } from "../../logging/operation.ts"
import type { Guard } from "../disk/guard.ts"
import type { FilesRoom } from "../files/open.ts"
import type { Keeping } from "../keeping/open.ts"
import { reconnectAll, removeOldSharedDirectories } from "../keeping/reconnect.ts"
import type { DesiredConfigs } from "../making/desired-configs.ts"
import type { State } from "../state/open.ts"
import type { Pressure } from "./pressure.ts"
import { everySandbox } from "./reconcile.ts"
import type { Workers } from "./workers.ts"

export interface PassesParts
  extends State,
    Pick<Keeping, "connections">,
    Pick<FilesRoom, "newcomers" | "sweep"> {
  readonly backend: Pick<Backend, "list" | "watch">
  readonly workers: Pick<Workers, "wake">
  readonly desiredConfigs: Pick<DesiredConfigs, "refresh" | "prepare">
  readonly guard: Pick<Guard, "watch">
  readonly pressure: Pick<Pressure, "watch">
  readonly log: Logger
}

const RECONCILE_EVERY_MS = 60_000

/** How long the store remembers why a sandbox is gone. */
const REMEMBER_MS = 7 * 24 * 3600 * 1000

/** Has every sandbox looked at: at the start of the server, when its engine tells of a change, and once a minute. */
export class Passes {
  readonly #parts: PassesParts
  readonly #over = new AbortController()
  #watching: Promise<void> | undefined
  #passing: NodeJS.Timeout | undefined

  constructor(parts: PassesParts) {
    this.#parts = parts
  }

  /** Takes up the sandboxes that run already. Called once; passes go on from then on. */
  start(signal: AbortSignal): Promise<void> {
    return operation(this.#parts.log, "sandboxes.adopt", {}, (note) => this.#start(note, signal))
  }

  async close(): Promise<void> {
    this.#over.abort()
    clearInterval(this.#passing)
    await this.#watching
  }

  async #start(note: (fields: OperationFields) => void, signal: AbortSignal): Promise<void> {
    const { backend, newcomers, sweep, guard, pressure, desiredConfigs } = this.#parts
    this.#watching = this.#watch().catch(this.#unwatched)
    const found = await backend.list({ signal })
    const there = { ...this.#parts, found }
    const sandboxes = await reconnectAll(there)
    note({
      found: found.length,
      sandboxes,
      sharedDirectoriesRemoved: await removeOldSharedDirectories(there),
    })
    // Unfinished forks and imports go before anybody can ask for a workspace of their name.
    await newcomers.removeUnfinished().catch(this.#failed)
    await guard.watch()
    void this.#wakeAll(found).catch(this.#failed)
    void sweep().catch(this.#failed)
    // The wanted configs of the known sandboxes depend on the toolbox, which may have to be built.
    const lookAgain = async () => {
      desiredConfigs.refresh()
      await this.#wakeAll(found)
    }
    if (sandboxes > 0) void desiredConfigs.prepare().then(lookAgain).catch(this.#failed)
    const pass = () => void this.#pass().catch(this.#failed)
    this.#passing = setInterval(pass, RECONCILE_EVERY_MS).unref()
    pressure.watch()
  }

  async #pass(): Promise<void> {
    const { desiredConfigs, rows, newcomers, sweep } = this.#parts
    desiredConfigs.refresh()
    await rows.forgetGone(REMEMBER_MS)
    await newcomers.removeUnfinished().catch(this.#failed)
    await sweep().catch(this.#failed)
    await this.#wakeAll()
  }

  async #watch(): Promise<void> {
    const { backend, connections, workers } = this.#parts
    for await (const event of backend.watch(this.#over.signal)) {
      if (event.kind === "resync") await this.#wakeAll().catch(this.#failed)
      else {
        if (event.kind === "exited") connections.get(event.sandbox)?.exited()
        workers.wake(event.sandbox)
      }
    }
  }

  async #wakeAll(seen?: readonly ObservedSandbox[]): Promise<void> {
    for (const sandbox of await everySandbox(this.#parts, seen)) this.#parts.workers.wake(sandbox)
  }

  readonly #failed = (err: unknown): void =>
    this.#parts.log.warn(
      { op: "sandboxes.pass", err },
      "a reconcile pass failed; the next one tries again",
    )

  readonly #unwatched = (err: unknown): void =>
    this.#parts.log.error(
      { op: "sandboxes.watch", err },
      "the engine's events cannot be watched any more",
    )
}
