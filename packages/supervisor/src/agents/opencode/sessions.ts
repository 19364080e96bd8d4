import { BerthError } from "@berth/protocol/errors"
import type { SessionId } from "@berth/protocol/ids"
import { listIn, objectIn, textIn } from "../read.ts"
import type { Client } from "./client.ts"
import { MARK } from "./conversation.ts"
import { endsWith, type Rule } from "./permissions.ts"

/** OpenCode gives the latest first. */
const MAX_LISTED = 1_000

/**
 * Which conversation of OpenCode belongs to which session. OpenCode keeps it itself, as the conversation's
 * metadata: so it lies where the conversation lies, and both go on together in another sandbox.
 */
export class Sessions {
  /** Every conversation has these as its own; none: what the configuration says holds. */
  readonly #rules: readonly Rule[]
  readonly #known = new Map<SessionId, string>()

  constructor(rules: readonly Rule[]) {
    this.#rules = rules
  }

  /** OpenCode's name for it; a new one where there is none yet. */
  async find(
    session: SessionId,
    { client, where, signal }: { client: Client; where: string; signal: AbortSignal },
  ): Promise<string> {
    const known = this.#known.get(session)
    if (known !== undefined) return known
    const listed = listIn(
      await client.get(`/session${where}&roots=true&limit=${MAX_LISTED}`, { signal }),
    )
    const mine = listed.map(objectIn).find(({ metadata }) => objectIn(metadata)[MARK] === session)
    const body = {
      metadata: { [MARK]: session },
      ...(this.#rules.length > 0 && { permission: this.#rules }),
    }
    const made = mine ?? objectIn(await client.post(`/session${where}`, { body, signal }))
    const id = textIn(made.id) ?? ""
    if (!/^ses_\w+$/.test(id))
      throw new BerthError("agent.failed", "OpenCode made a conversation without a name")
    if ([...this.#known].some(([other, its]) => its === id && other !== session))
      throw new BerthError("agent.failed", "OpenCode gave one conversation to two sessions")
    // A conversation that began under other rules gets these after its own.
    if (this.#rules.length > 0 && !endsWith(listIn(made.permission), this.#rules))
      await client.patch(`/session/${id}${where}`, { body: { permission: this.#rules }, signal })
    this.#known.set(session, id)
    return id
  }

  /** After a failure: it may be gone, and whoever asks next looks anew. */
  forget(session: SessionId): void {
    this.#known.delete(session)
  }
}
