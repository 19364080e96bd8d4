import { BerthError } from "@berth/protocol/errors"
import { type LeaseId, newId, type SandboxId } from "@berth/protocol/ids"
import { expires, type Lease, type LeaseKind, type LeaseSource } from "@berth/protocol/lease"
import { type Kysely, type Selectable, sql } from "kysely"
import type { Database, LeasesTable } from "../../store/database.ts"
import type { Clock } from "../state/clock.ts"
import { USABLE_PHASES } from "../state/phases.ts"

export interface NewLease {
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
  acquire(lease: NewLease): Promise<LeaseId>
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
export const openLeases = async (parts: LeasesParts): Promise<Leases> => {
  const { db } = parts
  await db.deleteFrom("leases").where("source", "in", ENDING_WITH_SERVER).execute()
  const stored = await db.selectFrom("leases").select(["id", "ttl_ms"]).execute()
  return new StoredLeases(parts, stored)
}

class StoredLeases implements Leases {
  readonly #db: Kysely<Database>
  readonly #clock: Clock
  readonly #onFree: LeasesParts["onFree"]
  /** The deadlines, by the monotonic clock. */
  readonly #deadlines = new Map<LeaseId, { atMs: number; readonly ttlMs: number }>()
  /** Leases that have ended but are still in the store. */
  readonly #ending = new Set<LeaseId>()
  readonly #ticking: NodeJS.Timeout
  #tickedMs: number

  constructor(
    { db, clock, onFree }: LeasesParts,
    stored: readonly Pick<Selectable<LeasesTable>, "id" | "ttl_ms">[],
  ) {
    this.#db = db
    this.#clock = clock
    this.#onFree = onFree
    this.#tickedMs = clock.monotonicMs()
    for (const { id, ttl_ms } of stored) if (ttl_ms !== null) this.#expectRenewal(id, ttl_ms)
    // If the store cannot be written at one tick, the next one tries again.
    const tick = () => void this.expire().catch(() => {})
    this.#ticking = setInterval(tick, LEASE_TICK_MS).unref()
  }

  async acquire(request: NewLease): Promise<LeaseId> {
    const { sandbox, kind, source, subject, yields = false, holder } = request
    const id = newId.lease()
    const ttlMs = expires(kind) ? request.ttlMs : undefined
    // The statement is written out: it runs before every command, and building it takes longer than running it.
    const { numAffectedRows } = await sql`
        INSERT INTO leases (id, sandbox, kind, source, subject, yields, holder, acquired_at_ms, ttl_ms)
        SELECT ${id}, sandboxes.id, ${kind}, ${source}, ${subject ?? null}, ${yields ? 1 : 0}, ${holder},
          ${this.#clock.now()}, ${ttlMs ?? null}
        FROM sandboxes
        WHERE sandboxes.id = ${sandbox} AND sandboxes.phase IN (${sql.join(USABLE_PHASES)})`.execute(
      this.#db,
    )
    if (numAffectedRows !== 1n) throw notUsable(sandbox)
    if (ttlMs !== undefined) this.#expectRenewal(id, ttlMs)
    return id
  }

  renew(lease: LeaseId): boolean {
    const deadline = this.#deadlines.get(lease)
    if (deadline === undefined) return false
    deadline.atMs = this.#clock.monotonicMs() + deadline.ttlMs
    return true
  }

  async retime(lease: LeaseId, ttlMs: number): Promise<void> {
    const before = this.#deadlines.get(lease)?.ttlMs
    if (before === undefined || before === ttlMs) return
    this.#expectRenewal(lease, ttlMs)
    await this.#db.updateTable("leases").set({ ttl_ms: ttlMs }).where("id", "=", lease).execute()
  }

  async release(lease: LeaseId): Promise<void> {
    // The deadline goes first, so that nobody renews a lease that is about to end.
    this.#deadlines.delete(lease)
    await this.#end(lease).then(
      () => this.#ending.delete(lease),
      // The store cannot be written now: each tick tries again.
      () => this.#ending.add(lease),
    )
  }

  async of(sandbox: SandboxId): Promise<Lease[]> {
    const rows = await this.#rows().where("sandbox", "=", sandbox).execute()
    return rows.map((row) => this.#shown(row))
  }

  async by(sources: readonly LeaseSource[], subject?: string): Promise<Lease[]> {
    const ofSources = this.#rows().where("source", "in", sources)
    const wanted = subject === undefined ? ofSources : ofSources.where("subject", "=", subject)
    return (await wanted.execute()).map((row) => this.#shown(row))
  }

  async all(): Promise<Map<SandboxId, Lease[]>> {
    const leases = (await this.#rows().execute()).map((row) => this.#shown(row))
    return Map.groupBy(leases, ({ sandbox }) => sandbox)
  }

  async expire(): Promise<void> {
    const now = this.#clock.monotonicMs()
    const lateMs = now - this.#tickedMs
    this.#tickedMs = now
    if (lateMs > LATE_TICK_MS)
      for (const deadline of this.#deadlines.values()) deadline.atMs = now + deadline.ttlMs
    for (const [lease, { atMs }] of this.#deadlines) if (atMs <= now) await this.release(lease)
    for (const lease of this.#ending) await this.release(lease)
  }

  close(): void {
    clearInterval(this.#ticking)
  }

  #expectRenewal(lease: LeaseId, ttlMs: number): void {
    this.#deadlines.set(lease, { atMs: this.#clock.monotonicMs() + ttlMs, ttlMs })
  }

  async #end(lease: LeaseId): Promise<void> {
    const { rows } = await sql<{ sandbox: SandboxId; others: number }>`
      DELETE FROM leases WHERE id = ${lease}
      RETURNING sandbox,
        (SELECT count(*) FROM leases AS other
          WHERE other.sandbox = leases.sandbox AND other.id <> ${lease} AND other.yields = 0) AS others`.execute(
      this.#db,
    )
    for (const { sandbox, others } of rows) if (others === 0) this.#onFree(sandbox)
  }

  #rows() {
    return this.#db.selectFrom("leases").selectAll().orderBy("acquired_at_ms")
  }

  #shown(row: Selectable<LeasesTable>): Lease {
    const deadline = this.#deadlines.get(row.id)
    const leftMs = deadline && deadline.atMs - this.#clock.monotonicMs()
    return {
      id: row.id,
      sandbox: row.sandbox,
      kind: row.kind,
      source: row.source,
      subject: row.subject,
      yields: row.yields === 1,
      holder: row.holder,
      acquiredAt: new Date(row.acquired_at_ms).toISOString(),
      expiresAt: leftMs === undefined ? null : new Date(this.#clock.now() + leftMs).toISOString(),
    }
  }
}

const notUsable = (sandbox: SandboxId): BerthError =>
  new BerthError("sandbox.ended", `${sandbox} is not there to be used any more`, {
    details: { sandbox },
  })
