import { readdirSync } from "node:fs"
import { join } from "node:path"
import { fillDisk, freeDisk } from "@berth/testing/disk-space"
import { sql } from "kysely"
import { MIGRATIONS } from "../migrations/list.ts"
import type { Migration } from "../migrations/migration.ts"
import { openStore } from "../open.ts"
import { databaseDigest, outcomeOf, say } from "./report.ts"
import { addWorkspace, workspaceSlugs } from "./workspaces.ts"

const [, , disk = ""] = process.argv
const dataDir = join(disk, "data")
const LARGE_BYTES = 500_000

const store = await openStore({ dataDir })
await store.durably((trx) => addWorkspace(trx, "before"))
fillDisk(disk)
const durable = store.durably((trx) => addWorkspace(trx, "durable", LARGE_BYTES))
say({ durable: await outcomeOf(durable) })
say({ ordinary: await outcomeOf(addWorkspace(store.db, "ordinary", LARGE_BYTES)) })
say({ readsWhileFull: await workspaceSlugs(store.db) })
freeDisk(disk)
await store.durably((trx) => addWorkspace(trx, "after"))
say({ readsAfterwards: await workspaceSlugs(store.db) })
await store.close()

const digest = databaseDigest(dataDir)
fillDisk(disk)
say({ open: await outcomeOf(openStore({ dataDir })) })
say({ openElsewhere: await outcomeOf(openStore({ dataDir: join(disk, "other") })) })
say({ unchanged: databaseDigest(dataDir) === digest })
freeDisk(disk)
say({ leftElsewhere: readdirSync(join(disk, "other")).filter((name) => name.includes("berth.db")) })

const tooLarge: Migration = {
  name: "too-large",
  up: async (trx) => {
    await sql`CREATE TABLE large AS SELECT randomblob(${10 * 1024 * 1024}) AS bytes`.execute(trx)
  },
}
say({ migration: await outcomeOf(openStore({ dataDir, migrations: [...MIGRATIONS, tooLarge] })) })

const reopened = await openStore({ dataDir })
say({ readsAtLast: await workspaceSlugs(reopened.db) })
await reopened.close()
