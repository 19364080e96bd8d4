import { setImmediate as soon } from "node:timers/promises"
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

interface Said {
  readonly sandbox: SandboxId
  readonly events: readonly Event[]
}

interface Waiting extends Said {
  readonly resolve: () => void
  readonly reject: (reason: unknown) => void
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

/** Events that are stored in one transaction, in which nothing else happens: some 20 ms. */
const MAX_GROUP_EVENTS = 512

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
  const { store, log, changes, onChange } = parts
  let waiting: Waiting[] = []
  let isStoring = false

  const storeAll = async (): Promise<void> => {
    isStoring = true
    while (waiting.length > 0) {
      // Storing lets nothing else happen: events that have arrived from others meanwhile are read first, and stored
      // together.
      await soon()
      await parts.turns.take("store", storeGroup)
    }
    // Set in the same turn as the last check for waiting events, so that none is left behind.
    isStoring = false
  }

  const storeGroup = async (): Promise<void> => {
    const group = takeGroup(waiting)
    waiting = waiting.slice(group.length)
    try {
      await storeTogether(group)
      for (const { resolve } of group) resolve()
    } catch (thrown) {
      // Events of one sandbox that cannot be stored do not keep those of others from being stored.
      if (group.length === 1) group[0]?.reject(thrown)
      else for (const one of group) await storeTogether([one]).then(one.resolve, one.reject)
    }
  }

  const storeTogether = async (group: readonly Said[]): Promise<void> => {
    // The end of a prompt survives a power loss; other events survive the death of any process.
    const isWeighty = group.some(({ events }) =>
      events.some(({ body }) => body.type === "prompt.state"),
    )
    const work = (trx: Transaction<Database>) => takeIn(trx, group)
    const concerned = isWeighty
      ? await store.durably(work)
      : await store.db.transaction().execute(work)
    log.ring(concerned)
    if (isWeighty) for (const session of concerned) onChange(session)
  }

  /** Stores the events in the transaction. Returns the sessions that they concern. */
  const takeIn = async (
    trx: Transaction<Database>,
    group: readonly Said[],
  ): Promise<ReadonlySet<SessionId>> => {
    const ids = [...new Set(group.map(({ sandbox }) => sandbox))]
    const sandboxes = await byId<Sandbox>(trx, SANDBOXES, ids)
    const prompts = await byId<OwnPrompt>(trx, PROMPTS, [
      ...new Set(group.flatMap(({ events }) => events.flatMap(({ body }) => promptOf(body) ?? []))),
    ])
    const over = new Set<PromptId>()
    const seen = new Map<SandboxId, number>()
    const rooms = new Map<SandboxId, SandboxRoom>()
    const atMs = parts.clock.now()
    const concerned = new Set<SessionId>()
    let ready: NewEvent[] = []
    for (const { sandbox, events } of group) {
      const row = sandboxes.get(sandbox)
      if (row === undefined) continue
      const used = { bytes: row.said_bytes, atMs: row.said_at_ms }
      const room = rooms.get(sandbox) ?? sandboxRoom(used, atMs)
      rooms.set(sandbox, room)
      const listening = events.some(({ body }) => promptOf(body) === undefined)
        ? await busySessions(trx, row.workspace)
        : []
      for (const { sequence, at, body } of events) {
        if (sequence <= (seen.get(sandbox) ?? row.last_seen)) continue
        seen.set(sandbox, sequence)
        // Only the log itself says what it has left out.
        if (body.type === "output.cut") continue
        const prompt = promptOf(body)
        const own = prompt && prompts.get(prompt)
        // A sandbox has no say about prompts that are not assigned to it, or that are over without it.
        const isMute =
          own === undefined || own.sandbox !== sandbox || isOver(own) || over.has(own.id)
        if (prompt !== undefined && isMute) continue
        const sessions = own === undefined ? listening : [own.session]
        for (const session of sessions) concerned.add(session)
        if (own !== undefined && body.type === "prompt.state") {
          await log.append(trx, ready)
          ready = []
          const { state, reason } = body
          if (state === "queued") continue
          await changes.moveIn(trx, own.id, { state, reason, at })
          if (state !== "running") over.add(own.id)
        } else for (const session of sessions) ready.push({ session, at, body, room })
      }
    }
    await log.append(trx, ready)
    const lasts = [...seen].map(([sandbox, last]) => {
      const left = rooms.get(sandbox)?.leftBytes ?? SANDBOX_BYTES
      return { sandbox, last, saidBytes: Math.round(SANDBOX_BYTES - left), atMs }
    })
    await trx.executeQuery(CompiledQuery.raw(SEEN, [JSON.stringify(lasts)]))
    return concerned
  }

  return {
    take: (sandbox, events) =>
      new Promise((resolve, reject) => {
        waiting.push({ sandbox, events, resolve, reject })
        if (!isStoring) void storeAll()
      }),
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

/** The first senders that have so many events together, at least one. */
const takeGroup = (waiting: readonly Waiting[]): readonly Waiting[] => {
  let events = 0
  const end = waiting.findIndex((one) => {
    events += one.events.length
    return events >= MAX_GROUP_EVENTS
  })
  return end === -1 ? waiting : waiting.slice(0, end + 1)
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
