import { createServer } from "node:net"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { BerthError } from "@berth/protocol/errors"
import type { Backend } from "../backend.ts"
import type { ContractHarness } from "./contract/harness.ts"

/** The parts of a backend's harness that the test at the other end uses. */
export interface Served
  extends Pick<ContractHarness, "backend" | "installation" | "system" | "census" | "close"> {
  readonly directory: string
}

/** The calls over the pipe: the backend's calls that take and give plain values, and the harness's. */
export interface ServerCalls
  extends Pick<
    Backend,
    "describe" | "create" | "start" | "stop" | "remove" | "inspect" | "logs" | "ensureNetwork"
  > {
  about(): Pick<Served, "installation" | "directory" | "system">
  census(): Promise<Record<string, number>>
  close(): Promise<void>
  /** Listens on a socket, a path or an abstract name that begins with a zero, and answers every connection. */
  listen(socket: string): Promise<void>
}

/**
 * Serves a backend in a process of its own, so that it can be in another namespace: the test speaks to it over its
 * standard input and output. A line of JSON is a call, a line of JSON its answer; the process ends with its input.
 */
export const serve = (served: Served): void => {
  const calls = callsOf(served)
  const input = createInterface({ input: process.stdin })
  input.on("line", (line) => void answer(calls, line))
  input.on("close", () => process.exit())
  console.log(JSON.stringify({ ready: true }))
}

const callsOf = (served: Served): ServerCalls => {
  const { backend, installation, directory, system } = served
  return {
    describe: () => backend.describe(),
    create: (spec) => backend.create(spec),
    start: (sandbox) => backend.start(sandbox),
    stop: (sandbox, options) => backend.stop(sandbox, options),
    remove: (sandbox) => backend.remove(sandbox),
    inspect: (sandbox) => backend.inspect(sandbox),
    logs: (sandbox) => backend.logs(sandbox),
    ensureNetwork: () => backend.ensureNetwork(),
    about: () => ({ installation, directory, system }),
    census: () => served.census(),
    close: () => served.close(),
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
}

const answer = async (calls: ServerCalls, line: string): Promise<void> => {
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
