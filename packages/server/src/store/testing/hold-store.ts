import { createInterface } from "node:readline"
import { toWireError } from "@berth/protocol/errors"
import { openStore } from "../open.ts"

const [, , dataDir = ""] = process.argv
const say = (line: unknown) => console.log(JSON.stringify(line))

/** Opens the store at the first line of input and reports the outcome; keeps it until the input ends. */
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
