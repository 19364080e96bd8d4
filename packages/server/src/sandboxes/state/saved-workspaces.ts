import { BerthError } from "@berth/protocol/errors"
import type { Slug } from "@berth/protocol/ids"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import type { Kysely } from "kysely"
import type { Database } from "../../store/database.ts"
import { durably } from "../../store/durably.ts"
import type { Clock } from "./clock.ts"
import { type OtherRepo, otherRepo } from "./other-repo.ts"
import type { Workspace } from "./workspace.ts"

/** The changes by which workspaces come, are described anew, and go. */
export interface SavedWorkspaces {
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
  /** Removes a workspace. Its sandboxes, which are gone, lead to no other of the same name from then on. */
  remove(slug: Slug): Promise<void>
}

export const saveWorkspaces = (db: Kysely<Database>, clock: Clock): SavedWorkspaces => ({
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
