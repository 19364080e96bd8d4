import { BerthError } from "@berth/protocol/errors"
import { type LeaseId, newId, type SandboxId } from "@berth/protocol/ids"
import { expires, type Lease, type LeaseKind, type LeaseSource } from "@berth/protocol/lease"
import { type Kysely, type Selectable, sql } from "kysely"
import type { Database, LeasesTable } from "../../store/database.ts"
import type { Clock } from "../state/clock.ts"
import { USABLE_PHASES } from "../state/rows.ts"

export interface LeaseRequest {
  readonly sandbox: SandboxId
  readonly kind: LeaseKind
  readonly source: LeaseSource
  /** The id of the prompt, session or other thing that the lease is for, where the source alone does not say. */
  readonly subject?: string
  /** Default: false. */
  readonly yields?: boolean
  /** The holder, in words that a person understands. */
  readonly holder: string
  /**
   * The time after which the lease ends if nobody renews it. Without it, and for kinds that end with their result, it
   * lasts until it is released.
   */
  readonly ttlMs?: number
}

/** The sources of leases for operations of this server itself, which the next server does not continue. */
const ENDING_WITH_SERVER = ["call", "fork", "export"] as const satisfies readonly LeaseSource[]

/**
 * The uses of sandboxes. A row is a live lease: whatever ends a lease deletes its row, so that "in use" is read and
 * written by single statements that look at no clock.
 *
 * Time is counted by a clock that stands still while the host sleeps, and only while somebody could renew: a restart,
 * and a server that stood still itself, give every holder its whole time again.
 */
export interface Leases {
  /** Fails if the sandbox is not to be used any more. */
  acquire(request: LeaseRequest): Promise<LeaseId>
  /** Returns false if the lease has ended. */
  renew(lease: LeaseId): boolean
  /** Gives a lease another duration, also for the next server: the configuration may have changed since. */
  retime(lease: LeaseId, ttlMs: number): Promise<void>
  /**
   * Ends a lease. May be called twice. Never fails: where the store cannot be written, the lease ends as soon as it can
   * be.
   */
  release(lease: LeaseId): Promise<void>
  of(sandbox: SandboxId): Promise<Lease[]>
  /** The leases of these sources, of one subject or of any. */
  by(sources: readonly LeaseSource[], subject?: string): Promise<Lease[]>
  /** Every lease, by sandbox. */
  all(): Promise<Map<SandboxId, Lease[]>>
  /** Deletes the leases that nobody renewed in time. Called by the clock's tick. */
  expire(): Promise<void>
  close(): void
}

export interface LeasesParts {
  readonly db: Kysely<Database>
  readonly clock: Clock
  /** Called when nobody uses a sandbox any more: one of its leases has ended, and all others yield. */
  readonly onFree: (sandbox: SandboxId) => void
}

export const LEASE_TICK_MS = 1_000
/** A tick that comes later than this was held up, and so were the holders that would have renewed. */
export const LATE_TICK_MS = 5 * LEASE_TICK_MS

/** Takes up the leases that the store has. Leases of calls ended with the server that had them. */
export const openLeases = async ({ db, clock, onFree }: LeasesParts): Promise<Leases> => {
  /** The deadlines, by the monotonic clock. */
  const deadlines = new Map<LeaseId, { atMs: number; readonly ttlMs: number }>()
  /** Leases that have ended but are still in the store. */
  const ending = new Set<LeaseId>()
  let tickedMs = clock.monotonicMs()

  const expectRenewal = (lease: LeaseId, ttlMs: number) =>
    deadlines.set(lease, { atMs: clock.monotonicMs() + ttlMs, ttlMs })

  const shownOf = (row: Selectable<LeasesTable>): Lease => {
    const deadline = deadlines.get(row.id)
    const leftMs = deadline && deadline.atMs - clock.monotonicMs()
    return {
      id: row.id,
      sandbox: row.sandbox,
      kind: row.kind,
      source: row.source,
      subject: row.subject,
      yields: row.yields === 1,
      holder: row.holder,
      acquiredAt: new Date(row.acquired_at_ms).toISOString(),
      expiresAt: leftMs === undefined ? null : new Date(clock.now() + leftMs).toISOString(),
    }
  }

  const release = async (lease: LeaseId): Promise<void> => {
    // The deadline goes first, so that nobody renews a lease that is about to end.
    deadlines.delete(lease)
    await end(lease).then(
      () => ending.delete(lease),
      // The store cannot be written now: each tick tries again.
      () => ending.add(lease),
    )
  }

  const end = async (lease: LeaseId): Promise<void> => {
    const { rows } = await sql<{ sandbox: SandboxId; others: number }>`
      DELETE FROM leases WHERE id = ${lease}
      RETURNING sandbox,
        (SELECT count(*) FROM leases AS other
          WHERE other.sandbox = leases.sandbox AND other.id <> ${lease} AND other.yields = 0) AS others`.execute(
      db,
    )
    for (const { sandbox, others } of rows) if (others === 0) onFree(sandbox)
  }

  const expire = async (): Promise<void> => {
    const now = clock.monotonicMs()
    const lateMs = now - tickedMs
    tickedMs = now
    if (lateMs > LATE_TICK_MS)
      for (const deadline of deadlines.values()) deadline.atMs = now + deadline.ttlMs
    for (const [lease, { atMs }] of deadlines) if (atMs <= now) await release(lease)
    for (const lease of ending) await release(lease)
  }

  await db.deleteFrom("leases").where("source", "in", ENDING_WITH_SERVER).execute()
  for (const { id, ttl_ms } of await db.selectFrom("leases").selectAll().execute())
    if (ttl_ms !== null) expectRenewal(id, ttl_ms)
  // If the store cannot be written at one tick, the next one tries again.
  const ticking = setInterval(() => void expire().catch(() => {}), LEASE_TICK_MS).unref()

  return {
    acquire: async ({ sandbox, kind, source, subject, yields = false, holder, ...request }) => {
      const id = newId.lease()
      const ttlMs = expires(kind) ? request.ttlMs : undefined
      // The statement is written out: it runs before every command, and building it takes longer than running it.
      const { numAffectedRows } = await sql`
        INSERT INTO leases (id, sandbox, kind, source, subject, yields, holder, acquired_at_ms, ttl_ms)
        SELECT ${id}, sandboxes.id, ${kind}, ${source}, ${subject ?? null}, ${yields ? 1 : 0}, ${holder},
          ${clock.now()}, ${ttlMs ?? null}
        FROM sandboxes
        WHERE sandboxes.id = ${sandbox} AND sandboxes.phase IN (${sql.join(USABLE_PHASES)})`.execute(
        db,
      )
      if (numAffectedRows !== 1n) throw notUsable(sandbox)
      if (ttlMs !== undefined) expectRenewal(id, ttlMs)
      return id
    },
    renew: (lease) => {
      const deadline = deadlines.get(lease)
      if (deadline === undefined) return false
      deadline.atMs = clock.monotonicMs() + deadline.ttlMs
      return true
    },
    retime: async (lease, ttlMs) => {
      const before = deadlines.get(lease)?.ttlMs
      if (before === undefined || before === ttlMs) return
      expectRenewal(lease, ttlMs)
      await db.updateTable("leases").set({ ttl_ms: ttlMs }).where("id", "=", lease).execute()
    },
    release,
    of: async (sandbox) => {
      const rows = await db
        .selectFrom("leases")
        .selectAll()
        .where("sandbox", "=", sandbox)
        .orderBy("acquired_at_ms")
        .execute()
      return rows.map(shownOf)
    },
    by: async (sources, subject) => {
      const ofSources = db.selectFrom("leases").selectAll().where("source", "in", sources)
      const wanted = subject === undefined ? ofSources : ofSources.where("subject", "=", subject)
      return (await wanted.orderBy("acquired_at_ms").execute()).map(shownOf)
    },
    all: async () => {
      const rows = await db.selectFrom("leases").selectAll().orderBy("acquired_at_ms").execute()
      return Map.groupBy(rows.map(shownOf), ({ sandbox }) => sandbox)
    },
    expire,
    close: () => clearInterval(ticking),
  }
}

const notUsable = (sandbox: SandboxId): BerthError =>
  new BerthError("sandbox.ended", `${sandbox} is not there to be used any more`, {
    details: { sandbox },
  })
