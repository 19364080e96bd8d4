import { BerthError } from "@berth/protocol/errors"
import type { SessionId } from "@berth/protocol/ids"
import { listIn, objectIn, textIn } from "../read.ts"
import type { Client } from "./client.ts"
import { MARK } from "./conversation.ts"
import { endsWith, type Rule } from "./permissions.ts"

/** Limit of the listed conversations. OpenCode lists the latest first. */
const MAX_LISTED = 1_000

/**
 * Maps each session to OpenCode's conversation for it. OpenCode stores the session's id in the conversation's metadata,
 * so both move to another sandbox together.
 */
export class Sessions {
  /** The rules that every conversation gets as its own. Empty: the configuration decides. */
  readonly #rules: readonly Rule[]
  readonly #known = new Map<SessionId, string>()

  constructor(rules: readonly Rule[]) {
    this.#rules = rules
  }

  /** Returns the id of the session's conversation, and makes one if there is none. */
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
    // A conversation that began under other rules gets these appended.
    if (this.#rules.length > 0 && !endsWith(listIn(made.permission), this.#rules))
      await client.patch(`/session/${id}${where}`, { body: { permission: this.#rules }, signal })
    this.#known.set(session, id)
    return id
  }

  /** Called after a prompt failed: the conversation may be gone, so the next `find` asks OpenCode again. */
  forget(session: SessionId): void {
    this.#known.delete(session)
  }
}
