import { setTimeout as pause, setImmediate as soon } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"
import type { SessionId } from "@berth/protocol/ids"
import { BATCH_EVENTS } from "../events/retention.ts"
import type { Store } from "../store/open.ts"
import { type Rows, sessionOf } from "./rows.ts"

/** Prompts that are removed in one step. The text of a prompt may be long. */
export const BATCH_PROMPTS = 50

/** A stop reaches an agent within a second, and the agent has some more to end in order. */
const STOP_WITHIN_MS = 15_000
const LOOK_EVERY_MS = 50

/**
 * Removes everything that is stored of a closed session, in steps between which others have their turn. Its row goes
 * last: a removal that a crash cuts short leaves a closed session, which is removed by asking again. Ids are random, so
 * none is used twice.
 */
export const removeRows = async (
  store: Pick<Store, "db" | "durably">,
  session: SessionId,
): Promise<void> => {
  await sessionOf(store.db, session)
  while ((await removeEvents(store, session)) === BATCH_EVENTS) await soon()
  while ((await removePrompts(store, session)) === BATCH_PROMPTS) await soon()
  await store.durably(async (trx) => {
    await trx.deleteFrom("events").where("session", "=", session).execute()
    await trx.deleteFrom("sessions").where("id", "=", session).execute()
  })
}

/** Removes a batch of the oldest events. Returns how many. */
const removeEvents = async ({ db }: Pick<Store, "db">, session: SessionId): Promise<number> => {
  const { numDeletedRows } = await db
    .deleteFrom("events")
    .where("session", "=", session)
    .where("sequence", "in", (eb) =>
      eb
        .selectFrom("events")
        .select("sequence")
        .where("session", "=", session)
        .orderBy("sequence")
        .limit(BATCH_EVENTS),
    )
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

const removePrompts = async ({ db }: Pick<Store, "db">, session: SessionId): Promise<number> => {
  const { numDeletedRows } = await db
    .deleteFrom("prompts")
    .where("id", "in", (eb) =>
      eb
        .selectFrom("prompts")
        .select("id")
        .where("session", "=", session)
        .orderBy("number")
        .limit(BATCH_PROMPTS),
    )
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/**
 * Resolves when no prompt of the session waits, runs or may still run; fails with `session.busy` where that takes too
 * long.
 */
export const untilIdle = async (
  rows: Pick<Rows, "get" | "next">,
  session: SessionId,
  withinMs = STOP_WITHIN_MS,
): Promise<void> => {
  const startedMs = performance.now()
  for (;;) {
    const { pending } = await rows.get(session)
    if (pending.length === 0 && (await rows.next(session)) === undefined) return
    if (performance.now() - startedMs > withinMs) throw busy(session, Math.max(1, pending.length))
    await pause(LOOK_EVERY_MS)
  }
}

const busy = (session: SessionId, prompts: number): BerthError =>
  new BerthError(
    "session.busy",
    `${prompts === 1 ? "a prompt" : `${prompts} prompts`} of ${session} ${prompts === 1 ? "runs or waits" : "run or wait"}`,
    { details: { session, prompts } },
  )

/** Fails with `session.busy` where a prompt of the session runs or waits. */
export const requireIdle = (rows: Pick<Rows, "get" | "next">, session: SessionId): Promise<void> =>
  untilIdle(rows, session, 0)
