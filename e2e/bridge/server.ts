/**
 * The server's end with a file as its store: `node server.ts DIRECTORY SANDBOX`. It says on stdout how many events
 * the file holds, after every write.
 */
import { closeSync, fdatasyncSync, openSync, readFileSync, truncateSync, writeSync } from "node:fs"
import { join } from "node:path"
import { openBridge } from "@berth/bridge/bridge"
import { SandboxId } from "@berth/protocol/ids"

const [, , directory = "", sandbox = ""] = process.argv
const path = join(directory, "store")
closeSync(openSync(path, "a"))
const text = readFileSync(path, "utf8")
const whole = text.slice(0, text.lastIndexOf("\n") + 1)
truncateSync(path, Buffer.byteLength(whole))
const file = openSync(path, "a")
let count = whole.split("\n").length - 1

openBridge(
  {
    address: { path: join(directory, "socket") },
    token: readFileSync(join(directory, "token"), "utf8"),
    sandbox: SandboxId.parse(sandbox),
    lastSeen: count,
    onEvents: async (events) => {
      // Each event is written by itself, so that a kill finds some of them written.
      for (const event of events) writeSync(file, `${JSON.stringify(event)}\n`)
      fdatasyncSync(file)
      count += events.length
      process.stdout.write(`${count}\n`)
    },
  },
  new AbortController().signal,
)
