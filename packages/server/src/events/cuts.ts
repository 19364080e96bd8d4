import type { EventBody } from "@berth/protocol/event"
import type { PromptId, SessionId } from "@berth/protocol/ids"
import { CompiledQuery, type Transaction } from "kysely"
import type { Database } from "../store/database.ts"
import { type Measured, measure, type NewEvent } from "./measure.ts"
import { partWithin, SESSION_BYTES } from "./output-budget.ts"
import type { RestFiles, RestPlace } from "./rest-files.ts"

/*
 * Output beyond a budget is left out of the log, in the transaction that would have stored it. It takes no number, so
 * that a reader sees no gap: an event in its place says how much is missing, and where it is. That event comes when the
 * first output of a prompt is left out, each time that the missing amount has doubled, and before the prompt's end.
 */

const ENDED = `
  UPDATE cuts SET told_bytes = bytes
  WHERE bytes > told_bytes AND prompt IN (SELECT value FROM json_each(?))
  RETURNING prompt, bytes, events,
    (SELECT workspace FROM sessions WHERE id = cuts.session) AS workspace`

const ADD = `
  INSERT INTO cuts (session, prompt, bytes, events, told_bytes) VALUES (?, ?, ?, ?, 0)
  ON CONFLICT DO UPDATE SET bytes = bytes + excluded.bytes, events = events + excluded.events
  RETURNING bytes, events, told_bytes`

type Workspace = Parameters<RestFiles["pattern"]>[0]["workspace"]
type CutBody = Extract<EventBody, { type: "output.cut" }>

/** The output that was left out for a prompt, or for events that belong to no prompt. */
interface Cut {
  readonly prompt: PromptId | undefined
  readonly at: string
  bytes: number
  events: number
}

/** Puts an event about a prompt's missing output before the event of the prompt's end. */
export const tellAtEnds = async (
  trx: Transaction<Database>,
  events: readonly NewEvent[],
  rest: RestFiles | undefined,
): Promise<readonly NewEvent[]> => {
  const ended = events.flatMap(({ body }) => endedPrompt(body) ?? [])
  if (ended.length === 0) return events
  const { rows } = await trx.executeQuery<{
    prompt: PromptId
    bytes: number
    events: number
    workspace: Workspace
  }>(CompiledQuery.raw(ENDED, [JSON.stringify(ended)]))
  if (rows.length === 0) return events
  const missing = new Map(rows.map((row) => [row.prompt, row]))
  return events.flatMap((event) => {
    const row = missing.get(endedPrompt(event.body) as PromptId)
    if (row === undefined) return [event]
    const { session, at } = event
    const files = rest?.pattern({ workspace: row.workspace, session }) ?? null
    return [{ session, at, body: cutBody(row.prompt, row, files) }, event]
  })
}

const endedPrompt = (body: EventBody): PromptId | undefined =>
  body.type === "prompt.state" && body.state !== "queued" && body.state !== "running"
    ? body.prompt
    : undefined

const cutBody = (
  prompt: PromptId | undefined,
  { bytes, events }: { readonly bytes: number; readonly events: number },
  files: string | null,
): CutBody => ({
  type: "output.cut",
  ...(prompt !== undefined && { prompt }),
  missingBytes: bytes,
  missingEvents: events,
  files,
})

export interface Counted {
  readonly id: SessionId
  readonly last_event: number
  readonly event_bytes: number
}

/** Leaves out events beyond the budgets. Returns the events to store, and the sessions' counts with them. */
export const cutDown = async (
  trx: Transaction<Database>,
  events: readonly Measured[],
  counted: readonly Counted[],
  rest: RestFiles | undefined,
): Promise<{ readonly events: readonly Measured[]; readonly counted: readonly Counted[] }> => {
  const bySession = Map.groupBy(events, ({ session }) => session)
  const parts: { readonly events: readonly Measured[]; readonly counted: Counted }[] = []
  for (const row of counted)
    parts.push(await cutSession(trx, bySession.get(row.id) ?? [], row, rest))
  return {
    events: parts.flatMap((part) => part.events),
    counted: parts.map((part) => part.counted),
  }
}

const cutSession = async (
  trx: Transaction<Database>,
  own: readonly Measured[],
  counted: Counted,
  rest: RestFiles | undefined,
) => {
  const { id: session } = counted
  const cuts = new Map<PromptId | undefined, Cut>()
  const kept: (Measured | Cut)[] = []
  const lines: string[] = []
  let held = counted.event_bytes - bytesOf(own)
  for (const event of own) {
    const part = partOf(event, held)
    held += part?.bytes ?? 0
    if (part !== event) {
      const { body, at } = event
      const prompt = "prompt" in body ? body.prompt : undefined
      const cut = cuts.get(prompt) ?? { prompt, at, bytes: 0, events: 0 }
      if (!cuts.has(prompt)) kept.push(cut)
      cuts.set(prompt, cut)
      cut.bytes += event.bytes - (part?.bytes ?? 0)
      cut.events++
      lines.push(`{"at":"${at}","body":${event.text}}\n`)
    }
    if (part !== undefined) kept.push(part)
  }
  if (cuts.size === 0) return { events: own, counted }
  const files = await writeRest(trx, session, lines.join(""), rest)
  const told = new Map<Cut, Measured>()
  for (const cut of cuts.values()) {
    const body = await addCut(trx, session, cut, files)
    if (body !== undefined) told.set(cut, measure({ session, at: cut.at, body }))
  }
  const stored = kept.flatMap((one) => ("text" in one ? [one] : (told.get(one) ?? [])))
  const event_bytes = counted.event_bytes - bytesOf(own) + bytesOf(stored)
  const last_event = counted.last_event - own.length + stored.length
  await trx
    .updateTable("sessions")
    .set({ event_bytes, last_event })
    .where("id", "=", session)
    .execute()
  return { events: stored, counted: { id: session, event_bytes, last_event } }
}

/** The event itself, a part of it, or nothing. Bytes that are left out are given back to the sandbox's budget. */
const partOf = (event: Measured, held: number): Measured | undefined => {
  const { session, at, body, room, bytes, sandboxExcess } = event
  if (room === undefined) return event
  const within = partWithin(body, Math.max(held + bytes - SESSION_BYTES, sandboxExcess))
  if (within === body) return event
  const part = within && measure({ session, at, body: within })
  room.leftBytes += bytes - (part?.bytes ?? 0)
  return part
}

/** Counts missing output. Returns the event that tells of it, if it is time for one. */
const addCut = async (
  trx: Transaction<Database>,
  session: SessionId,
  { prompt, bytes, events }: Cut,
  files: string | null,
): Promise<CutBody | undefined> => {
  const { rows } = await trx.executeQuery<{ bytes: number; events: number; told_bytes: number }>(
    CompiledQuery.raw(ADD, [session, prompt ?? "", bytes, events]),
  )
  const [all] = rows
  if (all === undefined || all.bytes < 2 * all.told_bytes) return undefined
  await trx
    .updateTable("cuts")
    .set({ told_bytes: all.bytes })
    .where("session", "=", session)
    .where("prompt", "=", prompt ?? "")
    .execute()
  return cutBody(prompt, all, files)
}

/**
 * Writes output that was left out to files. Returns their names; null if that failed: a full disk does not keep events
 * from being stored.
 */
const writeRest = async (
  trx: Transaction<Database>,
  session: SessionId,
  lines: string,
  rest: RestFiles | undefined,
): Promise<string | null> => {
  if (rest === undefined) return null
  const row = await trx
    .selectFrom("sessions")
    .select(["workspace", "rest_file", "rest_bytes"])
    .where("id", "=", session)
    .executeTakeFirstOrThrow()
  const owner = { workspace: row.workspace, session }
  let place: RestPlace
  try {
    place = await rest.write(owner, { file: row.rest_file, bytes: row.rest_bytes }, lines)
  } catch {
    return null
  }
  await trx
    .updateTable("sessions")
    .set({ rest_file: place.file, rest_bytes: place.bytes })
    .where("id", "=", session)
    .execute()
  return rest.pattern(owner)
}

const bytesOf = (events: readonly Measured[]): number =>
  events.reduce((sum, { bytes }) => sum + bytes, 0)
