import { writeSync } from "node:fs"
import { openStore } from "../open.ts"
import { addWorkspace } from "./workspaces.ts"

const [, , dataDir = ""] = process.argv

/** The mark is written without a buffer, so that a trace of system calls shows it at its place. */
const mark = (word: string) => writeSync(1, `${JSON.stringify(word)}\n`)

/** Commits in both ways, with marks around each commit. */
const store = await openStore({ dataDir })
mark("ordinary")
await store.db.transaction().execute((trx) => addWorkspace(trx, "ordinary"))
mark("durable")
await store.durably((trx) => addWorkspace(trx, "durable"))
mark("ordinary again")
await store.db.transaction().execute((trx) => addWorkspace(trx, "again"))
mark("done")
await store.close()
