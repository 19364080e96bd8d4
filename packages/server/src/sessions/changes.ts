import type { PromptResult } from "@berth/protocol/bridge"
import { MAX_REASON_CHARS } from "@berth/protocol/bridge-limits"
import type { EventBody } from "@berth/protocol/event"
import type { PromptId, SandboxId, SessionId, Slug } from "@berth/protocol/ids"
import type { PromptState } from "@berth/protocol/session"
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
   * Applies a state that a sandbox reports, in the transaction of its events. The end of a prompt whose stop was
   * overdue confirms that.
   */
  moveIn(trx: Transaction<Database>, prompt: PromptId, move: Move): Promise<void>
  /** Ends a prompt that no longer runs, without its sandbox's word. */
  end(prompt: PromptId, result: PromptResult, before?: readonly EventBody[]): Promise<void>
  /**
   * Notes that the sandbox has not taken the prompt's stop, before the prompt's processes are ended for it: from here
   * on it ends as stopped, however they end. Returns the other prompts that the sandbox's agent works on; undefined:
   * the prompt is over.
   */
  noteOverdue(prompt: Pick<AssignedPrompt, "id" | "sandbox">): Promise<PromptId[] | undefined>
  /**
   * Ends a prompt that its sandbox may still run. What the sandbox says of it is stored until it confirms the end, and
   * the session's next prompt waits for that.
   */
  endOverdue(prompt: PromptId, reason: string): Promise<void>
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

  const moveIn: Changes["moveIn"] = async (trx, prompt, move) => {
    if (move.state !== "running") return await endIn(trx, prompt, move, { isConfirmed: true })
    const row = await trx
      .updateTable("prompts")
      .set({ state: move.state, started_at_ms: Date.parse(move.at) })
      .where("id", "=", prompt)
      .where("state", "=", "queued")
      .returning("session")
      .executeTakeFirst()
    if (row !== undefined) await tellState(trx, row.session, prompt, move)
  }

  const endIn = async (
    trx: Transaction<Database>,
    prompt: PromptId,
    { state: said, reason, at }: Move,
    { isConfirmed }: { readonly isConfirmed: boolean },
  ): Promise<void> => {
    const before = await trx
      .selectFrom("prompts")
      .select(["session", "state", "stop_requested", "stop_overdue"])
      .where("id", "=", prompt)
      .executeTakeFirstOrThrow()
    if (isConfirmed && before.stop_overdue === 1)
      await trx.updateTable("prompts").set({ stop_overdue: 0 }).where("id", "=", prompt).execute()
    if (!isPending(before.state)) return
    // A prompt whose processes were ended from outside for its stop fails by that alone.
    const state = before.stop_overdue === 1 && BROKEN.has(said) ? "stopped" : said
    await trx
      .updateTable("prompts")
      .set({ state, reason: clip(reason) ?? null, ended_at_ms: Date.parse(at) })
      .where("id", "=", prompt)
      .execute()
    await trx.deleteFrom("attachments").where("prompt", "=", prompt).execute()
    await tellState(trx, before.session, prompt, { state, reason, at })
    if (state === "interrupted" && before.stop_requested === 0)
      await takeUp(trx, before.session, prompt, clip(reason) ?? "for a reason that is not known")
  }

  const tellState = (
    trx: Transaction<Database>,
    session: SessionId,
    prompt: PromptId,
    { state, reason, at }: Move,
  ): Promise<void> => {
    const told = clip(reason)
    const body = {
      type: "prompt.state",
      prompt,
      state,
      ...(told !== undefined && { reason: told }),
    } as const
    return log.append(trx, [{ session, at, body }])
  }

  /** Ends a prompt, unless it has ended. Resolves when that is on disk. */
  const endDurably = async (
    prompt: PromptId,
    { state, reason }: PromptResult,
    how: { readonly isConfirmed: boolean; readonly before?: readonly EventBody[] },
  ): Promise<void> => {
    const session = await store.durably(async (trx) => {
      const row = await trx
        .selectFrom("prompts")
        .select(["session", "state"])
        .where("id", "=", prompt)
        .where(isOpen)
        .executeTakeFirst()
      if (row === undefined) return undefined
      if (isPending(row.state)) await append(trx, row.session, how.before ?? [])
      await endIn(trx, prompt, { state, reason, at: now() }, how)
      return row.session
    })
    if (session === undefined) return
    log.ring([session])
    onChange(session)
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

    end: (prompt, result, before = []) => endDurably(prompt, result, { isConfirmed: true, before }),

    noteOverdue: ({ id, sandbox }) =>
      store.durably(async (trx) => {
        const { numUpdatedRows } = await trx
          .updateTable("prompts")
          .set({ stop_overdue: 1 })
          .where("id", "=", id)
          .where(isOpen)
          .executeTakeFirst()
        return numUpdatedRows === 0n ? undefined : await othersOfAgent(trx, sandbox, id)
      }),

    endOverdue: (prompt, reason) =>
      endDurably(prompt, { state: "stopped", reason }, { isConfirmed: false }),

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

const BROKEN: ReadonlySet<PromptState> = new Set(["failed", "interrupted"])

const clip = (reason: string | undefined): string | undefined => reason?.slice(0, MAX_REASON_CHARS)

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
