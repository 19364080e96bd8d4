import { execFileSync } from "node:child_process"
import { readdirSync } from "node:fs"
import { join } from "node:path"
import { openStore } from "../open.ts"
import { databaseDigest, outcomeOf, say } from "./report.ts"
import { addWorkspace, workspaceSlugs } from "./workspaces.ts"

const [, , disk = ""] = process.argv
const dataDir = join(disk, "data")

const remount = (option: "ro" | "rw") => execFileSync("mount", ["-o", `remount,${option}`, disk])

const store = await openStore({ dataDir })
await addWorkspace(store.db, "before")
await store.close()
const files = readdirSync(dataDir)
const digest = databaseDigest(dataDir)

remount("ro")
say({ open: await outcomeOf(openStore({ dataDir })) })
say({ openElsewhere: await outcomeOf(openStore({ dataDir: join(disk, "other") })) })
say({
  unchanged: databaseDigest(dataDir) === digest && readdirSync(dataDir).join() === files.join(),
})

remount("rw")
const reopened = await openStore({ dataDir })
say({ readsAtLast: await workspaceSlugs(reopened.db) })
await reopened.close()
