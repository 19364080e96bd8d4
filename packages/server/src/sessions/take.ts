import type { Event, EventBody } from "@berth/protocol/event"
import type { PromptId, SandboxId, SessionId, Slug } from "@berth/protocol/ids"
import type { PromptState } from "@berth/protocol/session"
import { CompiledQuery, type Transaction } from "kysely"
import type { EventLog } from "../events/log.ts"
import type { NewEvent } from "../events/measure.ts"
import { SANDBOX_BYTES, type SandboxRoom, sandboxRoom } from "../events/output-budget.ts"
import type { Turns } from "../events/turns.ts"
import type { SandboxEvents } from "../sandboxes/keeping/connection.ts"
import type { Clock } from "../sandboxes/state/clock.ts"
import type { Database } from "../store/database.ts"
import type { Store } from "../store/open.ts"
import type { Changes } from "./changes.ts"
import { EventQueue, type Said } from "./event-queue.ts"
import { isPending, PENDING } from "./rows.ts"

export interface TakeParts {
  readonly store: Pick<Store, "db" | "durably">
  readonly log: EventLog
  readonly changes: Pick<Changes, "moveIn" | "closeOf">
  readonly clock: Clock
  readonly turns: Turns
  /** Called after the commit of a change to the session's prompts. */
  readonly onChange: (session: SessionId) => void
}

interface Sandbox {
  readonly id: SandboxId
  readonly workspace: Slug
  readonly last_seen: number
  readonly said_bytes: number
  readonly said_at_ms: number
}

interface OwnPrompt {
  readonly id: PromptId
  readonly session: SessionId
  readonly sandbox: SandboxId
  readonly state: PromptState
  readonly stop_overdue: number
}

/*
 * Thousands of events a second pass here, from many sandboxes: events that wait at the same time are stored together,
 * and each statement is for all of them.
 */

const SANDBOXES = `
  SELECT id, workspace, last_seen, said_bytes, said_at_ms FROM sandboxes WHERE id IN (SELECT value FROM json_each(?))`

const PROMPTS = `
  SELECT id, session, sandbox, state, stop_overdue FROM prompts WHERE id IN (SELECT value FROM json_each(?))`

/** The sessions whose last prompt was assigned to the sandbox. */
const SESSIONS_IN = `
  SELECT sessions.id FROM sessions WHERE state = 'open' AND ? = (
    SELECT sandbox FROM prompts
    WHERE prompts.session = sessions.id AND sandbox IS NOT NULL ORDER BY number DESC LIMIT 1
  )`

const SEEN = `
  UPDATE sandboxes SET
    last_seen = seen.value ->> 'last',
    said_bytes = seen.value ->> 'saidBytes',
    said_at_ms = seen.value ->> 'atMs'
  FROM json_each(?) AS seen WHERE sandboxes.id = seen.value ->> 'sandbox'`

/** Stores the events of sandboxes. A sandbox may send events again after any break, and each counts once. */
export const openSandboxEvents = (parts: TakeParts): SandboxEvents => {
  const { store, log, changes } = parts
  const queue = new EventQueue(parts.turns, openStoreTogether(parts))
  return {
    take: (sandbox, events) => queue.put({ sandbox, events }),
    closeSessions: (workspace) => changes.closeOf(workspace),
    tell: async (sandbox, bodies) => {
      const at = new Date(parts.clock.now()).toISOString()
      const concerned = await store.db.transaction().execute(async (trx) => {
        const { rows } = await trx.executeQuery<{ id: SessionId }>(
          CompiledQuery.raw(SESSIONS_IN, [sandbox]),
        )
        const events = rows.flatMap(({ id }) => bodies.map((body) => ({ session: id, at, body })))
        await log.append(trx, events)
        return rows.map(({ id }) => id)
      })
      log.ring(concerned)
    },
    ended: async (prompts) =>
      [...(await byId<OwnPrompt>(store.db, PROMPTS, prompts)).values()]
        .filter(({ state }) => !isPending(state))
        .map(({ id }) => id),
    lastSeen: async (sandbox) =>
      (await byId<Sandbox>(store.db, SANDBOXES, [sandbox])).get(sandbox)?.last_seen ?? 0,
  }
}

/** Stores what several sandboxes said in one transaction, and wakes the followers of the sessions that it concerns. */
const openStoreTogether =
  ({ store, log, changes, clock, onChange }: TakeParts) =>
  async (group: readonly Said[]): Promise<void> => {
    // The end of a prompt survives a power loss; other events survive the death of any process.
    const isWeighty = group.some(({ events }) =>
      events.some(({ body }) => body.type === "prompt.state"),
    )
    const work = async (trx: Transaction<Database>) => {
      const taking = await openTaking(trx, { log, changes }, group, clock.now())
      for (const said of group) await taking.take(said)
      return await taking.finish()
    }
    const concerned = isWeighty
      ? await store.durably(work)
      : await store.db.transaction().execute(work)
    log.ring(concerned)
    if (isWeighty) for (const session of concerned) onChange(session)
  }

const openTaking = async (
  trx: Transaction<Database>,
  parts: TakingParts,
  group: readonly Said[],
  atMs: number,
): Promise<Taking> => {
  const ids = [...new Set(group.map(({ sandbox }) => sandbox))]
  const named = group.flatMap(({ events }) => events.flatMap(({ body }) => promptOf(body) ?? []))
  const sandboxes = await byId<Sandbox>(trx, SANDBOXES, ids)
  const prompts = await byId<OwnPrompt>(trx, PROMPTS, [...new Set(named)])
  return new Taking(trx, parts, { sandboxes, prompts, atMs })
}

interface TakingParts {
  readonly log: Pick<EventLog, "append">
  readonly changes: Pick<Changes, "moveIn">
}

/** The rows that the events of a group are about. */
interface Known {
  readonly sandboxes: ReadonlyMap<SandboxId, Sandbox>
  readonly prompts: ReadonlyMap<PromptId, OwnPrompt>
  readonly atMs: number
}

/** The events of a group on their way into the store, in one transaction. */
class Taking {
  readonly #trx: Transaction<Database>
  readonly #parts: TakingParts
  readonly #known: Known
  /** The prompts that have ended in this transaction. */
  readonly #over = new Set<PromptId>()
  /** The last event of each sandbox. */
  readonly #seen = new Map<SandboxId, number>()
  readonly #rooms = new Map<SandboxId, SandboxRoom>()
  readonly #concerned = new Set<SessionId>()
  /** Events that are not appended yet. */
  #ready: NewEvent[] = []

  constructor(trx: Transaction<Database>, parts: TakingParts, known: Known) {
    this.#trx = trx
    this.#parts = parts
    this.#known = known
  }

  /** Takes what one sandbox said. The events of a sandbox that is not known are dropped. */
  async take({ sandbox, events }: Said): Promise<void> {
    const row = this.#known.sandboxes.get(sandbox)
    if (row === undefined) return
    const room = this.#roomOf(row)
    const listening = events.some(({ body }) => promptOf(body) === undefined)
      ? await busySessions(this.#trx, row.workspace)
      : []
    for (const event of events) {
      if (event.sequence <= (this.#seen.get(sandbox) ?? row.last_seen)) continue
      this.#seen.set(sandbox, event.sequence)
      await this.#takeOne(sandbox, event, { listening, room })
    }
  }

  /** Stores what is left, and how far each sandbox is. Returns the sessions that the events concern. */
  async finish(): Promise<ReadonlySet<SessionId>> {
    await this.#append()
    const lasts = [...this.#seen].map(([sandbox, last]) => {
      const left = this.#rooms.get(sandbox)?.leftBytes ?? SANDBOX_BYTES
      const saidBytes = Math.round(SANDBOX_BYTES - left)
      return { sandbox, last, saidBytes, atMs: this.#known.atMs }
    })
    await this.#trx.executeQuery(CompiledQuery.raw(SEEN, [JSON.stringify(lasts)]))
    return this.#concerned
  }

  async #takeOne(
    sandbox: SandboxId,
    { at, body }: Event,
    { listening, room }: { readonly listening: readonly SessionId[]; readonly room: SandboxRoom },
  ): Promise<void> {
    // Only the log itself says what it has left out.
    if (body.type === "output.cut") return
    const prompt = promptOf(body)
    const own = prompt && this.#known.prompts.get(prompt)
    // A sandbox has no say about prompts that are not assigned to it, or that are over without it.
    const isMute =
      own === undefined || own.sandbox !== sandbox || isOver(own) || this.#over.has(own.id)
    if (prompt !== undefined && isMute) return
    const sessions = own === undefined ? listening : [own.session]
    for (const session of sessions) this.#concerned.add(session)
    if (own !== undefined && body.type === "prompt.state") await this.#move(own.id, body, at)
    else for (const session of sessions) this.#ready.push({ session, at, body, room })
  }

  /** Applies a state that a sandbox reports, after the events before it. */
  async #move(
    prompt: PromptId,
    { state, reason }: Extract<EventBody, { readonly type: "prompt.state" }>,
    at: string,
  ): Promise<void> {
    await this.#append()
    if (state === "queued") return
    await this.#parts.changes.moveIn(this.#trx, prompt, { state, reason, at })
    if (state !== "running") this.#over.add(prompt)
  }

  async #append(): Promise<void> {
    const ready = this.#ready
    this.#ready = []
    await this.#parts.log.append(this.#trx, ready)
  }

  #roomOf({ id, said_bytes, said_at_ms }: Sandbox): SandboxRoom {
    const used = { bytes: said_bytes, atMs: said_at_ms }
    const room = this.#rooms.get(id) ?? sandboxRoom(used, this.#known.atMs)
    this.#rooms.set(id, room)
    return room
  }
}

/** Whether a prompt has ended, and its sandbox is not asked any more to confirm that. */
const isOver = ({ state, stop_overdue }: OwnPrompt): boolean =>
  !isPending(state) && stop_overdue === 0

const promptOf = (body: EventBody): PromptId | undefined =>
  "prompt" in body ? body.prompt : undefined

const byId = async <Row extends { readonly id: string }>(
  db: Store["db"],
  query: string,
  ids: readonly Row["id"][],
): Promise<ReadonlyMap<Row["id"], Row>> => {
  if (ids.length === 0) return new Map()
  const { rows } = await db.executeQuery<Row>(CompiledQuery.raw(query, [JSON.stringify(ids)]))
  return new Map(rows.map((row) => [row.id, row]))
}

/** The sessions that wait for a boot of the workspace. */
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
