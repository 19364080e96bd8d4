import { createHash } from "node:crypto"
import { BerthError } from "@berth/protocol/errors"
import {
  newId,
  type PromptId,
  type SandboxId,
  type SessionId,
  type Slug,
} from "@berth/protocol/ids"
import { type OnInterrupt, Prompt, type PromptState, Session } from "@berth/protocol/session"
import { MAX_QUEUED_PROMPTS } from "@berth/protocol/session-limits"
import type { CreatePrompt } from "@berth/protocol/sessions"
import { AgentSpec } from "@berth/protocol/workspace"
import {
  CompiledQuery,
  type ExpressionBuilder,
  type Kysely,
  type Selectable,
  sql,
  type Transaction,
} from "kysely"
import type { Database, PromptsTable, SessionsTable } from "../store/database.ts"
import { openAsks } from "./open-asks.ts"

/** The states of prompts that wait or run. */
export const PENDING = ["queued", "running"] as const satisfies readonly PromptState[]

export const isPending = (state: PromptState): boolean => PENDING.some((one) => one === state)

/** Every event stream that begins runs this query. */
const IS_THERE = "SELECT 1 FROM sessions WHERE id = ?"

/** The store's rows of sessions and their prompts. */
export interface Rows {
  create(session: NewSession): Promise<SessionWithAsks>
  get(session: SessionId): Promise<StoredSession>
  /** Throws where there is no such session. */
  require(session: SessionId): Promise<void>
  /** Like get, with the asks that wait for an answer. */
  view(session: SessionId): Promise<SessionWithAsks>
  list(): Promise<SessionWithAsks[]>
  prompts(session: SessionId): Promise<StoredPrompt[]>
  /** Whether a prompt was accepted under this key. */
  hasKey(session: SessionId, key: string): Promise<boolean>
  /** The prompt that is to run next, that runs, or that was stopped and may still run. */
  next(session: SessionId): Promise<OpenPrompt | undefined>
  /** Whether the prompt waits or runs. */
  isPending(prompt: PromptId): Promise<boolean>
  attachments(prompt: PromptId): Promise<{ readonly name: string; readonly content: Buffer }[]>
  /** Sessions with prompts that wait or run, or that may still run. */
  busy(): Promise<SessionId[]>
  /** The prompts of a sandbox that were stopped and ended without its word, and may still run. */
  overdue(sandbox: SandboxId): Promise<{ readonly id: PromptId; readonly session: SessionId }[]>
  /** Whether the prompt's sandbox had another prompt for the shell since this one started. */
  hasOtherShell(prompt: AssignedPrompt): Promise<boolean>
  /** The sandbox of the last prompt that was assigned to any. */
  lastSandbox(session: SessionId): Promise<SandboxId | undefined>
}

export interface NewSession {
  readonly workspace: Slug
  readonly agent: AgentSpec
  readonly onInterrupt: OnInterrupt
  readonly atMs: number
}

/** A prompt without the reason why it waits, which is not stored. */
export type StoredPrompt = Omit<Prompt, "waitsFor">

/** A prompt that is not over: it waits or runs, or it was stopped and its sandbox has not confirmed that. */
export interface OpenPrompt extends StoredPrompt {
  readonly workspace: Slug
  /** The agent that the prompt was written for. */
  readonly agent: AgentSpec["kind"]
  readonly isStopRequested: boolean
}

/** A prompt that is assigned to a sandbox. */
export type AssignedPrompt = OpenPrompt & { readonly sandbox: SandboxId }

type SessionCall = "create" | "get" | "require" | "view" | "list"
type QueueCall = "next" | "busy" | "overdue" | "hasOtherShell"

export const openRows = (db: Kysely<Database>): Rows => ({
  ...sessionRows(db),
  ...queueRows(db),
  ...promptRows(db),
})

const sessionRows = (db: Kysely<Database>): Pick<Rows, SessionCall> => ({
  create: async ({ workspace, agent, onInterrupt, atMs }) => {
    const id = newId.session()
    await db
      .insertInto("sessions")
      .values({
        id,
        workspace,
        agent: JSON.stringify(agent),
        state: "open",
        on_interrupt: onInterrupt,
        created_at_ms: atMs,
      })
      .execute()
    return { ...(await sessionOf(db, id)), asks: [] }
  },
  get: (session) => sessionOf(db, session),
  require: async (session) => {
    const { rows } = await db.executeQuery(CompiledQuery.raw(IS_THERE, [session]))
    if (rows.length === 0) throw unknownSession(session)
  },
  view: async (session) => {
    const [found, asks] = await Promise.all([sessionOf(db, session), openAsks(db, session)])
    return { ...found, asks: asks.get(session) ?? [] }
  },
  list: async () => {
    const rows = await db
      .selectFrom("sessions")
      .selectAll()
      .orderBy("created_at_ms", "desc")
      .orderBy("id")
      .execute()
    const pending = await db
      .selectFrom("prompts")
      .select(["id", "session"])
      .where("state", "in", PENDING)
      .orderBy("number")
      .execute()
    const bySession = Map.groupBy(pending, ({ session }) => session)
    const asks = await openAsks(db)
    return rows.map((row) => ({
      ...shown(row, bySession.get(row.id) ?? []),
      asks: asks.get(row.id) ?? [],
    }))
  },
})

/** The prompts that are not over, as the driver takes them up. */
const queueRows = (db: Kysely<Database>): Pick<Rows, QueueCall> => ({
  next: async (session) => {
    const row = await db
      .selectFrom("prompts")
      .innerJoin("sessions", "sessions.id", "prompts.session")
      .selectAll("prompts")
      .select(["sessions.workspace", "sessions.agent"])
      .where("session", "=", session)
      .where(isOpen)
      // An assigned prompt comes first, then the continuation of an interrupted one, then the others.
      .orderBy(({ eb }) => eb("sandbox", "is", null))
      .orderBy(({ eb }) => eb("continues", "is", null))
      .orderBy("number")
      .limit(1)
      .executeTakeFirst()
    if (row === undefined) return undefined
    const { workspace, agent, ...prompt } = row
    const { kind } = AgentSpec.parse(JSON.parse(agent))
    const isStopRequested = row.stop_requested === 1
    return { ...promptOf(prompt), workspace, agent: kind, isStopRequested }
  },
  busy: async () => {
    const rows = await db.selectFrom("prompts").select("session").distinct().where(isOpen).execute()
    return rows.map(({ session }) => session)
  },
  overdue: (sandbox) =>
    db
      .selectFrom("prompts")
      .select(["id", "session"])
      .where("sandbox", "=", sandbox)
      .where("state", "not in", PENDING)
      .where("stop_overdue", "=", 1)
      .execute(),
  hasOtherShell: async ({ id, sandbox, startedAt }) => {
    const other = await db
      .selectFrom("prompts")
      .innerJoin("sessions", "sessions.id", "prompts.session")
      .select("prompts.id")
      .where("sandbox", "=", sandbox)
      .where("prompts.id", "<>", id)
      .where(sql`sessions.agent ->> '$.kind'`, "=", "shell")
      .where(({ eb, or }) =>
        or([
          eb("prompts.state", "in", PENDING),
          eb("prompts.stop_overdue", "=", 1),
          eb("ended_at_ms", ">=", Date.parse(startedAt ?? "")),
        ]),
      )
      .limit(1)
      .executeTakeFirst()
    return other !== undefined
  },
})

const promptRows = (db: Kysely<Database>): Omit<Rows, SessionCall | QueueCall> => ({
  prompts: async (session) => {
    await sessionOf(db, session)
    const rows = await db
      .selectFrom("prompts")
      .selectAll()
      .where("session", "=", session)
      .orderBy("number")
      .execute()
    return rows.map(promptOf)
  },
  hasKey: async (session, key) => (await underKey(db, session, key)) !== undefined,
  isPending: async (prompt) => {
    const row = await db
      .selectFrom("prompts")
      .select("state")
      .where("id", "=", prompt)
      .executeTakeFirst()
    return row !== undefined && isPending(row.state)
  },
  attachments: (prompt) =>
    db
      .selectFrom("attachments")
      .select(["name", "content"])
      .where("prompt", "=", prompt)
      .orderBy("name")
      .execute(),
  lastSandbox: async (session) => {
    const row = await db
      .selectFrom("prompts")
      .select("sandbox")
      .where("session", "=", session)
      .where("sandbox", "is not", null)
      .orderBy("number", "desc")
      .limit(1)
      .executeTakeFirst()
    return row?.sandbox ?? undefined
  },
})

/** The prompt as the store has it now; undefined: it is over. */
export const openNow = async (
  rows: Pick<Rows, "next">,
  { id, session }: Pick<OpenPrompt, "id" | "session">,
): Promise<OpenPrompt | undefined> => {
  const next = await rows.next(session)
  return next?.id === id ? next : undefined
}

/** The condition on `prompts` for those that are not over. */
export const isOpen = ({ eb, or }: ExpressionBuilder<Database, "prompts">) =>
  or([eb("prompts.state", "in", PENDING), eb("prompts.stop_overdue", "=", 1)])

/** A session without the reason why it waits, which is not stored. */
export type SessionWithAsks = Omit<Session, "waitsFor">

/** A session without its asks too, which are not looked up when a prompt is accepted. */
export type StoredSession = Omit<SessionWithAsks, "asks">

const StoredSession = Session.omit({ asks: true, waitsFor: true })

const unknownSession = (id: SessionId): BerthError =>
  new BerthError("session.unknown", `there is no session ${id}`, { details: { session: id } })

export const sessionOf = async (
  db: Kysely<Database> | Transaction<Database>,
  id: SessionId,
): Promise<StoredSession> => {
  const row = await db.selectFrom("sessions").selectAll().where("id", "=", id).executeTakeFirst()
  if (row === undefined) throw unknownSession(id)
  const pending = await db
    .selectFrom("prompts")
    .select("id")
    .where("session", "=", id)
    .where("state", "in", PENDING)
    .orderBy("number")
    .execute()
  return shown(row, pending)
}

/**
 * Accepts a prompt, once: sent again under the same key, it is the one that was accepted then. `isNew` is true for the
 * one call that inserted it.
 */
export const insertPrompt = async (
  trx: Transaction<Database>,
  session: StoredSession,
  sent: CreatePrompt,
  facts: { readonly atMs: number; readonly continues?: PromptId },
): Promise<{ readonly prompt: StoredPrompt; readonly isNew: boolean }> => {
  const digest = digestOf(sent)
  const before = sent.key === undefined ? undefined : await underKey(trx, session.id, sent.key)
  if (before !== undefined) {
    if (before.digest === digest) return { prompt: promptOf(before), isNew: false }
    throw new BerthError("prompt.key_used", "another prompt was sent under this key", {
      details: { session: session.id, key: sent.key, prompt: before.id },
    })
  }
  if (session.state === "closed")
    throw new BerthError("session.closed", `the session ${session.id} is closed`, {
      details: { session: session.id },
    })
  if (session.pending.length >= MAX_QUEUED_PROMPTS)
    throw new BerthError("session.full", `${session.pending.length} prompts wait already`, {
      details: { session: session.id, max: MAX_QUEUED_PROMPTS },
    })
  const { last } = await trx
    .selectFrom("prompts")
    .select(({ fn }) => fn.max<number | null>("number").as("last"))
    .where("session", "=", session.id)
    .executeTakeFirstOrThrow()
  const id = newId.prompt()
  const row = await trx
    .insertInto("prompts")
    .values({
      id,
      session: session.id,
      number: (last ?? 0) + 1,
      text: sent.text,
      digest,
      attachments: JSON.stringify(sent.attachments.map(({ name }) => name)),
      key: sent.key ?? null,
      state: "queued",
      reason: null,
      sandbox: null,
      deadline_ms: sent.deadlineMs ?? null,
      created_at_ms: facts.atMs,
      started_at_ms: null,
      ended_at_ms: null,
      continues: facts.continues ?? null,
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  for (const { name, content } of sent.attachments)
    await trx
      .insertInto("attachments")
      .values({ prompt: id, name, content: Buffer.from(content, "base64") })
      .execute()
  return { prompt: promptOf(row), isNew: true }
}

const underKey = (db: Kysely<Database>, session: SessionId, key: string) =>
  db
    .selectFrom("prompts")
    .selectAll()
    .where("session", "=", session)
    .where("key", "=", key)
    .executeTakeFirst()

const digestOf = ({ text, deadlineMs, attachments }: CreatePrompt): string =>
  createHash("sha256")
    .update(JSON.stringify([text, deadlineMs ?? null, attachments]))
    .digest("hex")

const shown = (
  row: Selectable<SessionsTable>,
  pending: readonly { readonly id: PromptId }[],
): StoredSession =>
  StoredSession.parse({
    id: row.id,
    workspace: row.workspace,
    agent: JSON.parse(row.agent),
    state: row.state,
    onInterrupt: row.on_interrupt,
    createdAt: iso(row.created_at_ms),
    lastEvent: row.last_event,
    pending: pending.map(({ id }) => id),
  })

export const promptOf = (row: Selectable<PromptsTable>): StoredPrompt => ({
  id: row.id,
  session: row.session,
  number: row.number,
  text: row.text,
  state: row.state,
  attachments: Prompt.shape.attachments.parse(JSON.parse(row.attachments)),
  reason: row.reason,
  sandbox: row.sandbox,
  deadlineMs: row.deadline_ms,
  createdAt: iso(row.created_at_ms),
  startedAt: row.started_at_ms === null ? null : iso(row.started_at_ms),
  endedAt: row.ended_at_ms === null ? null : iso(row.ended_at_ms),
  continues: row.continues,
})

const iso = (ms: number): string => new Date(ms).toISOString()
