import type { PromptResult } from "@berth/protocol/bridge"
import { MAX_REASON_CHARS } from "@berth/protocol/bridge-limits"
import type { EventBody } from "@berth/protocol/event"
import type { PromptId, SandboxId, SessionId, Slug } from "@berth/protocol/ids"
import type { PromptState } from "@berth/protocol/session"
import type { CreatePrompt } from "@berth/protocol/sessions"
import type { Transaction } from "kysely"
import type { EventLog } from "../events/log.ts"
import type { Clock } from "../sandboxes/state/clock.ts"
import type { Database } from "../store/database.ts"
import type { Store } from "../store/open.ts"
import { insertPrompt, PENDING, type StoredPrompt, sessionOf } from "./rows.ts"

/** The most interruptions in a row that are continued; then a person decides. */
export const MAX_CONTINUED = 3

export interface ChangesParts {
  readonly store: Pick<Store, "durably">
  readonly log: EventLog
  readonly clock: Clock
  /** Called after the commit of a change to the session's prompts. */
  readonly onChange: (session: SessionId) => void
}

/** The state changes of prompts: each with its event, on disk before anything follows from it. */
export interface Changes {
  /** Accepts a prompt. The same key gives the same prompt. */
  accept(session: SessionId, sent: CreatePrompt): Promise<StoredPrompt>
  /** Notes which sandbox a prompt is for, before the sandbox is told. Returns false if the prompt has been stopped. */
  assign(prompt: PromptId, sandbox: SandboxId): Promise<boolean>
  /**
   * Applies a state that a sandbox reports, in the transaction of its events. Returns false if the prompt had ended
   * before.
   */
  moveIn(trx: Transaction<Database>, prompt: PromptId, move: Move): Promise<boolean>
  /** Ends a prompt without its sandbox's word. */
  end(prompt: PromptId, result: PromptResult, before?: readonly EventBody[]): Promise<void>
  /** Stops prompts: those that still wait end, the others are marked. Resolves with all of them. */
  requestStop(session: SessionId, prompt: PromptId | undefined): Promise<PromptId[]>
  /** Closes a session to new prompts, and stops those that it has. */
  close(session: SessionId): Promise<void>
  /** Closes every session of a workspace. */
  closeOf(workspace: Slug): Promise<void>
  /** Appends an event of the server's own to a session. */
  tell(session: SessionId, body: EventBody): Promise<void>
}

export interface Move {
  readonly state: Exclude<PromptState, "queued">
  readonly reason?: string | undefined
  readonly at: string
}

export const openChanges = ({ store, log, clock, onChange }: ChangesParts): Changes => {
  const now = () => new Date(clock.now()).toISOString()

  /** Runs one transaction about one session, and wakes its followers. */
  const change = async <Result>(
    session: SessionId,
    work: (trx: Transaction<Database>) => Promise<Result>,
  ): Promise<Result> => {
    const result = await store.durably(work)
    log.ring([session])
    onChange(session)
    return result
  }

  const append = (
    trx: Transaction<Database>,
    session: SessionId,
    bodies: readonly EventBody[],
  ): Promise<void> =>
    log.append(
      trx,
      bodies.map((body) => ({ session, at: now(), body })),
    )

  const moveIn: Changes["moveIn"] = async (trx, prompt, { state, at, ...move }) => {
    const reason = move.reason?.slice(0, MAX_REASON_CHARS)
    const isStart = state === "running"
    const row = await trx
      .updateTable("prompts")
      .set(
        isStart
          ? { state, started_at_ms: Date.parse(at) }
          : { state, reason: reason ?? null, ended_at_ms: Date.parse(at) },
      )
      .where("id", "=", prompt)
      .where("state", "in", isStart ? ["queued"] : PENDING)
      .returningAll()
      .executeTakeFirst()
    if (row === undefined) return false
    if (!isStart) await trx.deleteFrom("attachments").where("prompt", "=", prompt).execute()
    const told = { prompt, state, ...(reason !== undefined && { reason }) }
    const body = { type: "prompt.state", ...told } as const
    await log.append(trx, [{ session: row.session, at, body }])
    if (state === "interrupted" && row.stop_requested === 0)
      await takeUp(trx, row.session, prompt, reason ?? "for a reason that is not known")
    return true
  }

  /**
   * Continues an interrupted prompt with a new one. Nothing is run again: the agent is told to look at what it has
   * done, and to go on.
   */
  const takeUp = async (
    trx: Transaction<Database>,
    id: SessionId,
    prompt: PromptId,
    reason: string,
  ): Promise<void> => {
    const session = await sessionOf(trx, id)
    if (session.onInterrupt !== "continue" || session.state === "closed") return
    if ((await interruptedInARow(trx, prompt)) > MAX_CONTINUED) {
      const message = `it was interrupted ${MAX_CONTINUED + 1} times in a row, and waits for a new prompt`
      return await append(trx, id, [{ type: "warning", prompt, message }])
    }
    const text = `You were interrupted: ${reason}. Look at what you have done already, then go on where you were.`
    const facts = { atMs: clock.now(), continues: prompt }
    const inserted = await insertPrompt(trx, session, { text, attachments: [] }, facts)
    const { id: next } = inserted.prompt
    await append(trx, id, [{ type: "prompt.state", prompt: next, state: "queued" }])
  }

  const stopIn = async (
    trx: Transaction<Database>,
    prompts: readonly PromptId[],
  ): Promise<void> => {
    for (const prompt of prompts) {
      const { sandbox } = await trx
        .updateTable("prompts")
        .set({ stop_requested: 1 })
        .where("id", "=", prompt)
        .returning("sandbox")
        .executeTakeFirstOrThrow()
      if (sandbox === null) await moveIn(trx, prompt, { state: "stopped", at: now() })
    }
  }

  const closeIn = async (trx: Transaction<Database>, session: SessionId): Promise<void> => {
    const { pending } = await sessionOf(trx, session)
    await trx.updateTable("sessions").set({ state: "closed" }).where("id", "=", session).execute()
    await stopIn(trx, pending)
  }

  return {
    accept: (id, sent) =>
      change(id, async (trx) => {
        const session = await sessionOf(trx, id)
        const { prompt, isNew } = await insertPrompt(trx, session, sent, { atMs: clock.now() })
        if (isNew)
          await append(trx, id, [{ type: "prompt.state", prompt: prompt.id, state: "queued" }])
        return prompt
      }),

    assign: (prompt, sandbox) =>
      store.durably(async (trx) => {
        const { numUpdatedRows } = await trx
          .updateTable("prompts")
          .set({ sandbox })
          .where("id", "=", prompt)
          .where("state", "=", "queued")
          .where("sandbox", "is", null)
          .where("stop_requested", "=", 0)
          .executeTakeFirst()
        return numUpdatedRows === 1n
      }),

    moveIn,

    end: async (prompt, { state, reason }, before = []) => {
      const session = await store.durably(async (trx) => {
        const row = await trx
          .selectFrom("prompts")
          .select("session")
          .where("id", "=", prompt)
          .where("state", "in", PENDING)
          .executeTakeFirst()
        if (row === undefined) return undefined
        await append(trx, row.session, before)
        await moveIn(trx, prompt, { state, reason, at: now() })
        return row.session
      })
      if (session === undefined) return
      log.ring([session])
      onChange(session)
    },

    requestStop: (session, only) =>
      change(session, async (trx) => {
        const pending = (await sessionOf(trx, session)).pending
        const stopped = only === undefined ? pending : pending.filter((id) => id === only)
        await stopIn(trx, stopped)
        return stopped
      }),

    close: (session) => change(session, (trx) => closeIn(trx, session)),

    closeOf: async (workspace) => {
      const closed = await store.durably(async (trx) => {
        const open = await trx
          .selectFrom("sessions")
          .select("id")
          .where("workspace", "=", workspace)
          .where("state", "=", "open")
          .execute()
        for (const { id } of open) await closeIn(trx, id)
        return open.map(({ id }) => id)
      })
      log.ring(closed)
      for (const session of closed) onChange(session)
    },

    tell: (session, body) => change(session, (trx) => append(trx, session, [body])),
  }
}

/** The number of interruptions in a row that led to this one, including it. */
const interruptedInARow = async (trx: Transaction<Database>, prompt: PromptId): Promise<number> => {
  let count = 0
  for (let id: PromptId | null = prompt; id !== null; count++) {
    const row: { continues: PromptId | null } | undefined = await trx
      .selectFrom("prompts")
      .select("continues")
      .where("id", "=", id)
      .executeTakeFirst()
    id = row?.continues ?? null
  }
  return count
}
