import type { PromptResult } from "@berth/protocol/bridge"
import type { EventBody } from "@berth/protocol/event"
import type { PromptId, SandboxId, SessionId, Slug } from "@berth/protocol/ids"
import type { CreatePrompt } from "@berth/protocol/sessions"
import { sql, type Transaction } from "kysely"
import type { EventLog } from "../events/log.ts"
import type { Clock } from "../sandboxes/state/clock.ts"
import type { Database } from "../store/database.ts"
import type { Store } from "../store/open.ts"
import {
  type AssignedPrompt,
  insertPrompt,
  isOpen,
  isPending,
  PENDING,
  type StoredPrompt,
  sessionOf,
} from "./rows.ts"
import { type Move, Transitions } from "./transitions.ts"

export interface ChangesParts {
  readonly store: Pick<Store, "durably">
  readonly log: EventLog
  readonly clock: Clock
  /** Called after the commit of a change to the session's prompts. */
  readonly onChange: (session: SessionId) => void
}

/** The state changes of prompts: each with its event, on disk before anything follows from it. */
export class Changes {
  readonly #parts: ChangesParts
  readonly #transitions: Transitions

  constructor(parts: ChangesParts) {
    this.#parts = parts
    this.#transitions = new Transitions(parts)
  }

  /** Accepts a prompt. The same key gives the same prompt. */
  accept(id: SessionId, sent: CreatePrompt): Promise<StoredPrompt> {
    return this.#change(id, async (trx) => {
      const session = await sessionOf(trx, id)
      const atMs = this.#parts.clock.now()
      const { prompt, isNew } = await insertPrompt(trx, session, sent, { atMs })
      const body = { type: "prompt.state", prompt: prompt.id, state: "queued" } as const
      if (isNew) await this.#transitions.append(trx, id, [body])
      return prompt
    })
  }

  /** Notes which sandbox a prompt is for, before the sandbox is told. Returns false if the prompt has been stopped. */
  assign(prompt: PromptId, sandbox: SandboxId): Promise<boolean> {
    return this.#parts.store.durably(async (trx) => {
      const { numUpdatedRows } = await trx
        .updateTable("prompts")
        .set({ sandbox })
        .where("id", "=", prompt)
        .where("state", "=", "queued")
        .where("sandbox", "is", null)
        .where("stop_requested", "=", 0)
        .executeTakeFirst()
      return numUpdatedRows === 1n
    })
  }

  /**
   * Applies a state that a sandbox reports, in the transaction of its events. The end of a prompt whose stop was
   * overdue confirms that.
   */
  moveIn(trx: Transaction<Database>, prompt: PromptId, move: Move): Promise<void> {
    return this.#transitions.move(trx, prompt, move)
  }

  /** Ends a prompt that no longer runs, without its sandbox's word. */
  end(prompt: PromptId, result: PromptResult, before: readonly EventBody[] = []): Promise<void> {
    return this.#end(prompt, result, { isConfirmed: true, before })
  }

  /**
   * Notes that the sandbox has not taken the prompt's stop, before the prompt's processes are ended for it: from here
   * on it ends as stopped, however they end. Returns the other prompts that the sandbox's agent works on; undefined:
   * the prompt is over.
   */
  noteOverdue({
    id,
    sandbox,
  }: Pick<AssignedPrompt, "id" | "sandbox">): Promise<PromptId[] | undefined> {
    return this.#parts.store.durably(async (trx) => {
      const { numUpdatedRows } = await trx
        .updateTable("prompts")
        .set({ stop_overdue: 1 })
        .where("id", "=", id)
        .where(isOpen)
        .executeTakeFirst()
      return numUpdatedRows === 0n ? undefined : await othersOfAgent(trx, sandbox, id)
    })
  }

  /**
   * Ends a prompt that its sandbox may still run. What the sandbox says of it is stored until it confirms the end, and
   * the session's next prompt waits for that.
   */
  endOverdue(prompt: PromptId, reason: string): Promise<void> {
    return this.#end(prompt, { state: "stopped", reason }, { isConfirmed: false, before: [] })
  }

  /** Stops prompts: those that still wait end, the others are marked. Resolves with all of them. */
  requestStop(session: SessionId, only: PromptId | undefined): Promise<PromptId[]> {
    return this.#change(session, async (trx) => {
      const { pending } = await sessionOf(trx, session)
      const stopped = only === undefined ? pending : pending.filter((id) => id === only)
      await this.#transitions.requestStop(trx, stopped)
      return stopped
    })
  }

  /** Closes a session to new prompts, and stops those that it has. */
  close(session: SessionId): Promise<void> {
    return this.#change(session, (trx) => this.#transitions.closeSession(trx, session))
  }

  /** Closes every session of a workspace. */
  async closeOf(workspace: Slug): Promise<void> {
    const closed = await this.#parts.store.durably(async (trx) => {
      const open = await trx
        .selectFrom("sessions")
        .select("id")
        .where("workspace", "=", workspace)
        .where("state", "=", "open")
        .execute()
      for (const { id } of open) await this.#transitions.closeSession(trx, id)
      return open.map(({ id }) => id)
    })
    this.#announce(closed)
  }

  /** Appends an event of the server's own to a session. */
  tell(session: SessionId, body: EventBody): Promise<void> {
    return this.#change(session, (trx) => this.#transitions.append(trx, session, [body]))
  }

  /** Ends a prompt, unless it is over. Resolves when that is on disk. */
  async #end(
    prompt: PromptId,
    { state, reason }: PromptResult,
    how: { readonly isConfirmed: boolean; readonly before: readonly EventBody[] },
  ): Promise<void> {
    const session = await this.#parts.store.durably(async (trx) => {
      const row = await trx
        .selectFrom("prompts")
        .select(["session", "state"])
        .where("id", "=", prompt)
        .where(isOpen)
        .executeTakeFirst()
      if (row === undefined) return undefined
      if (isPending(row.state)) await this.#transitions.append(trx, row.session, how.before)
      await this.#transitions.end(trx, prompt, { state, reason }, how)
      return row.session
    })
    if (session !== undefined) this.#announce([session])
  }

  /** Runs one transaction about one session, and wakes its followers. */
  async #change<Result>(
    session: SessionId,
    work: (trx: Transaction<Database>) => Promise<Result>,
  ): Promise<Result> {
    const result = await this.#parts.store.durably(work)
    this.#announce([session])
    return result
  }

  #announce(sessions: readonly SessionId[]): void {
    this.#parts.log.ring(sessions)
    for (const session of sessions) this.#parts.onChange(session)
  }
}

/**
 * The other prompts of the sandbox that its agent works on, and that nobody has asked to stop. A prompt for the shell
 * has a process of its own.
 */
const othersOfAgent = async (
  trx: Transaction<Database>,
  sandbox: SandboxId,
  prompt: PromptId,
): Promise<PromptId[]> => {
  const rows = await trx
    .selectFrom("prompts")
    .innerJoin("sessions", "sessions.id", "prompts.session")
    .select("prompts.id")
    .where("prompts.sandbox", "=", sandbox)
    .where("prompts.id", "<>", prompt)
    .where("prompts.state", "in", PENDING)
    .where("prompts.stop_requested", "=", 0)
    .where(sql`sessions.agent ->> '$.kind'`, "<>", "shell")
    .execute()
  return rows.map(({ id }) => id)
}
