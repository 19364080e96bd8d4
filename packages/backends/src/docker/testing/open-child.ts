/** A program that opens a backend on the engine behind a socket, and tells how that failed. */
import { newId } from "@berth/protocol/ids"
import { openDocker } from "../backend.ts"

const [, , socketPath = ""] = process.argv
const engine = { socketPath }
try {
  await openDocker({ installation: newId.installation(), directory: "/nowhere", engine, image: "" })
} catch (thrown) {
  console.log(JSON.stringify(thrown))
}
