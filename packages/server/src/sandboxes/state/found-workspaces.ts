import type { Slug } from "@berth/protocol/ids"
import type { WorkspaceLimits } from "@berth/protocol/limits"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { type Kysely, sql } from "kysely"
import type { Database } from "../../store/database.ts"
import type { Workspace } from "./workspace.ts"

type DiskLimits = Pick<WorkspaceLimits, "diskBytes" | "diskInodes">

/** The queries for workspaces. */
export interface FoundWorkspaces {
  /** The workspaces that are reserved and not complete. */
  reserved(): Promise<readonly Slug[]>
  /** The names that are taken. */
  slugs(): Promise<readonly Slug[]>
  get(slug: Slug): Promise<Workspace | undefined>
  /** The disk limits of the workspaces that set any. */
  diskLimits(): Promise<ReadonlyMap<Slug, DiskLimits>>
}

export const findWorkspaces = (db: Kysely<Database>): FoundWorkspaces => ({
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
})
