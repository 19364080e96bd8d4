import type { Slug } from "@berth/protocol/ids"
import type { ConfigHash } from "@berth/protocol/sandbox"
import type { Kysely } from "kysely"
import type { Database } from "../../store/database.ts"

/** The notes on how the sandboxes of a workspace booted. */
export interface WorkspaceBoots {
  booted(slug: Slug): Promise<void>
  /** Notes that the files are about to be removed. */
  unbooted(slug: Slug): Promise<void>
  bootFailed(slug: Slug, hash: ConfigHash, why: string): Promise<void>
}

export const openWorkspaceBoots = (db: Kysely<Database>): WorkspaceBoots => ({
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
