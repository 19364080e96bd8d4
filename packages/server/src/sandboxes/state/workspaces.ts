import { BerthError } from "@berth/protocol/errors"
import type { Slug } from "@berth/protocol/ids"
import type { WorkspaceLimits } from "@berth/protocol/limits"
import type { ConfigHash } from "@berth/protocol/sandbox"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { type Kysely, sql } from "kysely"
import type { Database } from "../../store/database.ts"
import { durably } from "../../store/durably.ts"
import type { Clock } from "./clock.ts"
import { type OtherRepo, otherRepo } from "./other-repo.ts"

export interface Workspace {
  readonly spec: WorkspaceSpec
  /** The files have been through a whole boot: the next one leaves them as they are. */
  readonly isBooted: boolean
  /** The failed boots of one config in a row. */
  readonly failed:
    | { readonly boots: number; readonly hash: ConfigHash; readonly why: string }
    | undefined
}

type DiskLimits = Pick<WorkspaceLimits, "diskBytes" | "diskInodes">

/** The store's workspaces. */
export interface Workspaces {
  /**
   * Stores a workspace as it is described now. If the one of its name is for another repo, stores nothing and returns
   * both repos.
   */
  put(spec: WorkspaceSpec): Promise<OtherRepo | undefined>
  /** Returns false if there is one of that name. */
  add(spec: WorkspaceSpec, state: Pick<Workspace, "isBooted">): Promise<boolean>
  /**
   * Takes a name for a workspace whose files are yet to be copied: nobody sees it. Returns false if there is one of
   * that name.
   */
  reserve(spec: WorkspaceSpec, state: Pick<Workspace, "isBooted">): Promise<boolean>
  /** Makes a reserved workspace visible: its files are whole. */
  complete(slug: Slug): Promise<void>
  /** The workspaces that are reserved and not complete. */
  reserved(): Promise<readonly Slug[]>
  /** The names that are taken. */
  slugs(): Promise<readonly Slug[]>
  get(slug: Slug): Promise<Workspace | undefined>
  /** The disk limits of the workspaces that set any. */
  diskLimits(): Promise<ReadonlyMap<Slug, DiskLimits>>
  /** Removes a workspace. Its sandboxes, which are gone, lead to no other of the same name from then on. */
  remove(slug: Slug): Promise<void>
  booted(slug: Slug): Promise<void>
  /** Notes that the files are about to be removed. */
  unbooted(slug: Slug): Promise<void>
  bootFailed(slug: Slug, hash: ConfigHash, why: string): Promise<void>
}

export const openWorkspaces = (db: Kysely<Database>, clock: Clock): Workspaces => ({
  // The row is on disk before the files are, so that a power loss leaves no files without a known owner.
  put: (spec) =>
    durably(db, async (trx) => {
      const known = await trx
        .selectFrom("workspaces")
        .select(["spec", "forking"])
        .where("slug", "=", spec.slug)
        .executeTakeFirst()
      if (known?.forking === 1) throw workspaceExists(spec.slug)
      const other = known && otherRepo(WorkspaceSpec.parse(JSON.parse(known.spec)), spec)
      if (other !== undefined) return other
      const now = clock.now()
      const text = JSON.stringify(spec)
      await trx
        .insertInto("workspaces")
        .values({
          slug: spec.slug,
          spec: text,
          created_at_ms: now,
          updated_at_ms: now,
          failed_hash: null,
          failed_why: null,
        })
        .onConflict((conflict) =>
          conflict.column("slug").doUpdateSet({ spec: text, updated_at_ms: now }),
        )
        .execute()
      return undefined
    }),
  add: (spec, { isBooted }) => insert(db, { spec, isBooted, isForking: false, nowMs: clock.now() }),
  // The row is on disk before the files are: after a crash in between, they are known as those of an unfinished fork.
  reserve: (spec, { isBooted }) =>
    durably(db, (trx) => insert(trx, { spec, isBooted, isForking: true, nowMs: clock.now() })),
  complete: (slug) =>
    durably(db, async (trx) => {
      await trx.updateTable("workspaces").set({ forking: 0 }).where("slug", "=", slug).execute()
    }),
  reserved: async () => {
    const found = await db
      .selectFrom("workspaces")
      .select("slug")
      .where("forking", "=", 1)
      .execute()
    return found.map(({ slug }) => slug)
  },
  slugs: async () => {
    const found = await db.selectFrom("workspaces").select("slug").execute()
    return found.map(({ slug }) => slug)
  },
  get: async (slug) => {
    const row = await db
      .selectFrom("workspaces")
      .selectAll()
      .where("slug", "=", slug)
      .where("forking", "=", 0)
      .executeTakeFirst()
    if (row === undefined) return undefined
    const { spec, booted, failed_boots: boots, failed_hash: hash, failed_why: why } = row
    return {
      spec: WorkspaceSpec.parse(JSON.parse(spec)),
      isBooted: booted === 1,
      failed: hash === null || boots === 0 ? undefined : { boots, hash, why: why ?? "not said" },
    }
  },
  diskLimits: async () => {
    const bytes = sql<number | null>`json_extract(spec, '$.limits.diskBytes')`
    const inodes = sql<number | null>`json_extract(spec, '$.limits.diskInodes')`
    const found = await db
      .selectFrom("workspaces")
      .select(["slug", bytes.as("bytes"), inodes.as("inodes")])
      .where(({ or, eb }) => or([eb(bytes, "is not", null), eb(inodes, "is not", null)]))
      .execute()
    return new Map(
      found.map((row) => [
        row.slug,
        {
          ...(row.bytes !== null && { diskBytes: row.bytes }),
          ...(row.inodes !== null && { diskInodes: row.inodes }),
        },
      ]),
    )
  },
  remove: (slug) =>
    db.transaction().execute(async (trx) => {
      await trx.deleteFrom("workspaces").where("slug", "=", slug).execute()
      await trx
        .updateTable("sandboxes")
        .set({ detached: 1 })
        .where("workspace", "=", slug)
        .where("phase", "=", "gone")
        .execute()
    }),
  booted: async (slug) => {
    await db
      .updateTable("workspaces")
      .set({ booted: 1, failed_boots: 0, failed_hash: null, failed_why: null })
      .where("slug", "=", slug)
      .execute()
  },
  unbooted: async (slug) => {
    await db.updateTable("workspaces").set({ booted: 0 }).where("slug", "=", slug).execute()
  },
  bootFailed: async (slug, hash, why) => {
    await db
      .updateTable("workspaces")
      .set(({ fn, eb, case: when }) => ({
        failed_boots: when()
          .when("failed_hash", "=", hash)
          .then(eb(fn.coalesce("failed_boots", eb.lit(0)), "+", 1))
          .else(1)
          .end(),
        failed_hash: hash,
        failed_why: why,
      }))
      .where("slug", "=", slug)
      .execute()
  },
})

interface NewWorkspace extends Pick<Workspace, "spec" | "isBooted"> {
  readonly isForking: boolean
  readonly nowMs: number
}

const insert = async (
  db: Kysely<Database>,
  { spec, isBooted, isForking, nowMs }: NewWorkspace,
): Promise<boolean> => {
  const { numInsertedOrUpdatedRows } = await db
    .insertInto("workspaces")
    .values({
      slug: spec.slug,
      spec: JSON.stringify(spec),
      created_at_ms: nowMs,
      updated_at_ms: nowMs,
      booted: isBooted ? 1 : 0,
      forking: isForking ? 1 : 0,
      failed_hash: null,
      failed_why: null,
    })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  return numInsertedOrUpdatedRows === 1n
}

export const workspaceExists = (workspace: Slug): BerthError =>
  new BerthError("workspace.exists", `there is a workspace ${workspace} already`, {
    details: { workspace },
  })
