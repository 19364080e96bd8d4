import type { Event, EventBody } from "@berth/protocol/event"
import type { PromptId, SandboxId, SessionId, Slug } from "@berth/protocol/ids"
import type { PromptState } from "@berth/protocol/session"
import type { Transaction } from "kysely"
import type { EventLog, NewEvent } from "../events/log.ts"
import type { Database } from "../store/database.ts"
import type { Store } from "../store/open.ts"
import type { Changes } from "./changes.ts"
import { isPending, PENDING } from "./rows.ts"

export interface TakeParts {
  readonly store: Pick<Store, "db" | "durably">
  readonly log: EventLog
  readonly changes: Pick<Changes, "moveIn">
  /** After the commit: something has changed for the session's prompts. */
  readonly onChange: (session: SessionId) => void
}

/** What sandboxes say. It may be said again after any break, and counts once. */
export interface SandboxEvents {
  /** Stores what is new. When it resolves, the sandbox may forget it. */
  take(sandbox: SandboxId, events: readonly Event[]): Promise<void>
  /** The number of the last event that is stored. */
  lastSeen(sandbox: SandboxId): Promise<number>
}

interface OwnPrompt {
  readonly session: SessionId
  state: PromptState
}

export const openSandboxEvents = (parts: TakeParts): SandboxEvents => {
  const { store, log, changes, onChange } = parts

  const lastSeen = async (db: Store["db"], sandbox: SandboxId) =>
    await db
      .selectFrom("sandboxes")
      .select(["workspace", "last_seen"])
      .where("id", "=", sandbox)
      .executeTakeFirst()

  /** The sessions that it concerns. */
  const takeIn = async (
    trx: Transaction<Database>,
    sandbox: SandboxId,
    said: readonly Event[],
  ): Promise<ReadonlySet<SessionId>> => {
    const row = await lastSeen(trx, sandbox)
    const events = said.filter(({ sequence }) => sequence > (row?.last_seen ?? 0))
    const last = events.at(-1)
    if (row === undefined || last === undefined) return new Set()
    const prompts = await promptsIn(trx, sandbox, events)
    const others = events.some(({ body }) => promptOf(body) === undefined)
      ? await busySessions(trx, row.workspace)
      : []
    const concerned = new Set<SessionId>()
    let waiting: NewEvent[] = []
    for (const { at, body } of events) {
      const prompt = promptOf(body)
      const own = prompt && prompts.get(prompt)
      // Of prompts that are none of its, or have ended without it, a sandbox has nothing to say.
      if (prompt !== undefined && (own === undefined || !isPending(own.state))) continue
      const sessions = own === undefined ? others : [own.session]
      for (const session of sessions) concerned.add(session)
      if (own === undefined || body.type !== "prompt.state") {
        waiting.push(...sessions.map((session) => ({ session, at, body })))
        continue
      }
      await log.append(trx, waiting)
      waiting = []
      const { state, reason } = body
      if (state === "queued" || prompt === undefined) continue
      await changes.moveIn(trx, prompt, { state, reason, at })
      own.state = state
    }
    await log.append(trx, waiting)
    await trx
      .updateTable("sandboxes")
      .set({ last_seen: last.sequence })
      .where("id", "=", sandbox)
      .execute()
    return concerned
  }

  return {
    take: async (sandbox, events) => {
      // How a prompt has ended survives a power loss; what was said on the way survives the death of any process.
      const isWeighty = events.some(({ body }) => body.type === "prompt.state")
      const work = (trx: Transaction<Database>) => takeIn(trx, sandbox, events)
      const concerned = isWeighty
        ? await store.durably(work)
        : await store.db.transaction().execute(work)
      log.ring(concerned)
      if (isWeighty) for (const session of concerned) onChange(session)
    },
    lastSeen: async (sandbox) => (await lastSeen(store.db, sandbox))?.last_seen ?? 0,
  }
}

const promptOf = (body: EventBody): PromptId | undefined =>
  "prompt" in body ? body.prompt : undefined

const promptsIn = async (
  trx: Transaction<Database>,
  sandbox: SandboxId,
  events: readonly Event[],
): Promise<ReadonlyMap<PromptId, OwnPrompt>> => {
  const ids = new Set(events.flatMap(({ body }) => promptOf(body) ?? []))
  const found = new Map<PromptId, OwnPrompt>()
  for (const id of ids) {
    const row = await trx
      .selectFrom("prompts")
      .select(["session", "state"])
      .where("id", "=", id)
      .where("sandbox", "=", sandbox)
      .executeTakeFirst()
    if (row !== undefined) found.set(id, row)
  }
  return found
}

/** A boot concerns those who wait for it. */
const busySessions = async (
  trx: Transaction<Database>,
  workspace: Slug,
): Promise<readonly SessionId[]> => {
  const rows = await trx
    .selectFrom("prompts")
    .innerJoin("sessions", "sessions.id", "prompts.session")
    .select("sessions.id")
    .distinct()
    .where("sessions.workspace", "=", workspace)
    .where("prompts.state", "in", PENDING)
    .execute()
  return rows.map(({ id }) => id)
}
