import type { CarriedPorts } from "../bridge/host-ports.ts"
import type { Dispatch } from "../features/dispatch.ts"
import { findHidden } from "../processes/tree/left-processes.ts"
import { ownPidNamespace } from "../processes/tree/pid-namespace.ts"
import { idOf } from "../processes/tree/proc.ts"
import type { SandboxParts } from "./options.ts"
import type { Parts } from "./parts.ts"

/** Time for the server, at the end, to acknowledge the last events. */
export const LAST_WORDS_MS = 3_000

export interface EndingParts
  extends Pick<SandboxParts, "user" | "hurry" | "onFault">,
    Pick<Parts, "journal" | "ledger" | "pipes" | "processes" | "prompts"> {
  readonly hostPorts: CarriedPorts
  readonly features: Pick<Dispatch, "close">
  /** The servers of the sandbox, in the order in which they are closed. */
  readonly servers: readonly Promise<{ close(): Promise<void> }>[]
}

/** Ends the parts of a sandbox, each before what it needs. */
export class Ending {
  readonly #parts: EndingParts

  constructor(parts: EndingParts) {
    this.#parts = parts
  }

  /** Ends prompts: they report their end before their processes are ended. */
  async endPrompts(): Promise<void> {
    const { prompts, onFault } = this.#parts
    await prompts.then((opened) => opened.close(), onFault)
  }

  /** Ends prompts and the calls of clients. */
  async endUses(): Promise<void> {
    this.#parts.hostPorts.close()
    await Promise.all([this.endPrompts(), this.#parts.features.close()])
  }

  /** Ends processes of the boot that hid their origin. Processes of commands and terminals go on. */
  async endHidden(): Promise<void> {
    const { user, processes, hurry } = this.#parts
    const all = ownPidNamespace()
    if (all === undefined) return
    const hidden = new Set((await findHidden(user)).map(idOf))
    const find = async () => (await all.find()).filter((entry) => hidden.has(idOf(entry)))
    await processes.stop({ hurry, rest: { ...all, find } })
  }

  /** Ends everything. The last events are on disk then, and with the server if it took them in time. */
  async endAll(): Promise<void> {
    const { processes, hurry, journal, ledger, servers, pipes, onFault } = this.#parts
    await this.endUses()
    const rest = ownPidNamespace()
    await processes.stop({ hurry, ...(rest && { rest }) })
    const tooLong = AbortSignal.any([hurry, AbortSignal.timeout(LAST_WORDS_MS)])
    await journal.then((opened) => opened.allAcknowledged(tooLong)).catch(() => {})
    for (const server of servers) await server.then((opened) => opened.close(), onFault)
    await Promise.allSettled([journal, ledger].map(async (file) => (await file).close()))
    pipes.close()
  }
}
