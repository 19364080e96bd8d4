/**
 * A server's embedded backend in a process of its own, for whoever wants it in another namespace: the test
 * speaks to it over its standard input and output. A line of JSON is a call, a line of JSON its answer; it ends
 * with its input.
 */
import { createServer } from "node:net"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { BerthError } from "@berth/protocol/errors"
import type { Backend } from "../../backend.ts"
import { openHarness } from "./harness.ts"

/** What can be asked of it: the backend's calls that take and give plain values, and the harness's. */
export interface ServerCalls
  extends Pick<
    Backend,
    | "describe"
    | "create"
    | "start"
    | "stop"
    | "remove"
    | "inspect"
    | "logs"
    | "stats"
    | "ensureNetwork"
  > {
  about(): { installation: string; directory: string }
  census(): Promise<Record<string, number>>
  close(): Promise<void>
  /** Answers whoever connects to a socket: a path, or an abstract name that begins with a zero. */
  listen(socket: string): Promise<void>
}

const harness = await openHarness()
const { backend, installation, directory } = harness

const calls: ServerCalls = {
  describe: () => backend.describe(),
  create: (spec) => backend.create(spec),
  start: (sandbox) => backend.start(sandbox),
  stop: (sandbox, options) => backend.stop(sandbox, options),
  remove: (sandbox) => backend.remove(sandbox),
  inspect: (sandbox) => backend.inspect(sandbox),
  logs: (sandbox) => backend.logs(sandbox),
  stats: (sandbox) => backend.stats(sandbox),
  ensureNetwork: () => backend.ensureNetwork(),
  about: () => ({ installation, directory }),
  census: () => harness.census(),
  close: () => harness.close(),
  listen: (socket) =>
    new Promise((resolve, reject) => {
      const server = createServer((caller) => {
        caller.on("error", () => {})
        caller.end("the server hears you\n")
      })
      server.on("error", reject)
      server.listen(socket.startsWith("\0") ? socket : join(directory, socket), () => resolve())
    }),
}

const answer = async (line: string): Promise<void> => {
  const { id, call, args } = JSON.parse(line) as {
    id: number
    call: keyof ServerCalls
    args: never[]
  }
  try {
    const result = await (calls[call] as (...args: never[]) => unknown)(...args)
    console.log(JSON.stringify({ id, result }))
  } catch (thrown) {
    const { code, message, details } =
      thrown instanceof BerthError ? thrown : { code: "", message: String(thrown), details: {} }
    console.log(JSON.stringify({ id, error: { code, message, details } }))
  }
}

const input = createInterface({ input: process.stdin })
input.on("line", (line) => void answer(line))
input.on("close", () => process.exit())
console.log(JSON.stringify({ ready: true }))
