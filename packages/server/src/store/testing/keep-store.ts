import { createInterface } from "node:readline"
import { openStore } from "../open.ts"
import { say } from "./report.ts"
import { addWorkspace } from "./workspaces.ts"

const [, , dataDir = ""] = process.argv

/** Opens the store, and commits what each line of input says: `durably SLUG` or `ordinarily SLUG`. */
const store = await openStore({ dataDir })
say("opened")
for await (const line of createInterface({ input: process.stdin })) {
  const [how, slug = ""] = line.split(" ")
  if (how === "durably") await store.durably((trx) => addWorkspace(trx, slug))
  else await store.db.transaction().execute((trx) => addWorkspace(trx, slug))
  say(slug)
}
await store.close()
