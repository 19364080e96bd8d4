/**
 * A program that carries out the test's calls in a network namespace of its own, where it plays the host, a sandbox or
 * the world outside. A line of JSON is a call, a line of JSON is its answer; the program ends with its input.
 */
import { flushCompileCache } from "node:module"
import { createInterface } from "node:readline"
import { PLAIN_ENV } from "@berth/host/child"
import { run } from "@berth/host/run"
import { BerthError } from "@berth/protocol/errors"
import type { ConnectionBounds } from "../../../connections/bounds.ts"
import type { createNetwork, SandboxNetwork } from "../network.ts"
import {
  arrived,
  ask,
  dial,
  endStaying,
  flood,
  hold,
  letGo,
  listen,
  send,
  useHeld,
} from "./traffic.ts"

export interface Calls {
  run(command: [string, ...string[]]): Promise<string>
  create(options: {
    installation: string
    directory: string
    pool?: string
    bounds?: ConnectionBounds
  }): Promise<void>
  resolvers(servers: string[]): void
  path(directories: string): void
  ensure(): Promise<void>
  restore(): Promise<boolean>
  ensureTogether(callers: number): Promise<void>
  reserve(sandbox: string): Promise<{ address: string; gateway: string; resolver: string }>
  reserveMany(sandboxes: string[]): Promise<string[]>
  attach(attachment: {
    sandbox: string
    pid: number
    allow?: string[]
    abortAfterMs?: number
  }): Promise<void>
  detach(sandbox: string): Promise<void>
  list(): Promise<string[]>
  listen: typeof listen
  dial: typeof dial
  send: typeof send
  flood: typeof flood
  hold: typeof hold
  letGo: typeof letGo
  endStaying: typeof endStaying
  useHeld: typeof useHeld
  ask: typeof ask
  arrived: typeof arrived
}

let network: SandboxNetwork | undefined
let servers: string[] = []
const never = new AbortController().signal
type Options = Parameters<typeof createNetwork>[0]
type Sandbox = Parameters<SandboxNetwork["reserve"]>[0]

const ours = (): SandboxNetwork => {
  if (network === undefined) throw new Error("create comes first")
  return network
}

const calls: Calls = {
  async run(command) {
    const { status, stdout, stderr } = await run(command, { signal: never })
    if (status !== 0) throw new Error(`${command.join(" ")}: ${stderr}`)
    return stdout
  },
  async create({ bounds, ...options }) {
    // Loaded on demand: sandboxes and the world outside start faster without it.
    const { createNetwork } = await import("../network.ts")
    flushCompileCache()
    network = createNetwork({
      ...(options as Options),
      resolvers: async () => servers,
      ...(bounds && { bounds: () => bounds }),
    })
  },
  resolvers(wanted) {
    servers = wanted
  },
  path(directories) {
    Object.assign(PLAIN_ENV, { PATH: directories })
  },
  ensure: () => ours().ensure(never),
  restore: () => ours().restore(never),
  async ensureTogether(callers) {
    await Promise.all(Array.from({ length: callers }, () => ours().ensure(never)))
  },
  reserve: (sandbox) => ours().reserve(sandbox as Sandbox),
  reserveMany: async (sandboxes) => {
    const reserved = await Promise.all(
      sandboxes.map((sandbox) => ours().reserve(sandbox as Sandbox)),
    )
    return reserved.map(({ address }) => address)
  },
  attach: ({ sandbox, pid, allow = [], abortAfterMs }) =>
    ours().attach(
      sandbox as Sandbox,
      pid,
      allow,
      abortAfterMs === undefined ? never : AbortSignal.timeout(abortAfterMs),
    ),
  detach: (sandbox) => ours().detach(sandbox as Sandbox, never),
  list: () => ours().list(),
  listen,
  dial,
  send,
  flood,
  hold,
  letGo,
  endStaying,
  useHeld,
  ask,
  arrived,
}

const answer = async (line: string): Promise<void> => {
  const { id, call, argument } = JSON.parse(line) as {
    id: number
    call: keyof Calls
    argument: never
  }
  try {
    const result = await (calls[call] as (argument: unknown) => unknown)(argument)
    console.log(JSON.stringify({ id, result }))
  } catch (thrown) {
    const error =
      thrown instanceof BerthError
        ? thrown.toJSON()
        : { code: "", message: String(thrown), details: {} }
    console.log(JSON.stringify({ id, error }))
  }
}

const input = createInterface({ input: process.stdin })
input.on("line", (line) => void answer(line))
input.on("close", () => process.exit())
// Tests kill agents, which then could not write the cache at their end.
flushCompileCache()
console.log(JSON.stringify({ ready: true }))
