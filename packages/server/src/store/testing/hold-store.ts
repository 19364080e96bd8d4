import { createInterface } from "node:readline"
import { toWireError } from "@berth/protocol/errors"
import { openStore } from "../open.ts"

const [, , dataDir = ""] = process.argv
const say = (line: unknown) => console.log(JSON.stringify(line))

/** At the first line that it is told, opens the store and says how that went; keeps it until its input ends. */
say("waiting")
const told = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
await told.next()
const store = await openStore({ dataDir }).catch((thrown: unknown) => {
  say({ refused: toWireError(thrown) })
})
if (store) {
  say({ opened: store.installationId })
  await told.next()
  await store.close()
}
