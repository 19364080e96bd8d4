import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { createInterface } from "node:readline"
import type { Calls } from "./agent.ts"

type Argument<Name extends keyof Calls> = Parameters<Calls[Name]>[0]
type Result<Name extends keyof Calls> = Awaited<ReturnType<Calls[Name]>>

/** A network namespace with an agent in it. The namespace ends with the agent, and everything in it as well. */
export interface Namespace {
  readonly pid: number
  call<Name extends keyof Calls>(name: Name, argument?: Argument<Name>): Promise<Result<Name>>
  /** Runs a program in the namespace: `ip("link set lo up")`. */
  ip(...commands: string[]): Promise<void>
  run(command: string): Promise<string>
  kill(): Promise<void>
}

/** The failure of an agent's call: `toMatchObject({ code: "backend.…" })`. */
export class CallFailed extends Error {
  readonly code: string
  readonly details: Record<string, unknown>
  constructor({ code, message, details }: { code: string; message: string; details: object }) {
    super(message)
    this.code = code
    this.details = { ...details }
  }
}

/** Commands that make a network namespace. A sandbox's is owned by a user namespace of its own. */
export const UNSHARE = {
  host: ["unshare", "--net"],
  sandbox: ["unshare", "--net", "--user", "--map-root-user"],
} as const

/** The command that puts one more agent into an existing namespace. */
export const joining = ({ pid }: Namespace) => ["nsenter", `--net=/proc/${pid}/ns/net`] as const

export const enterNamespace = async (by: readonly [string, ...string[]]): Promise<Namespace> => {
  const [program, ...args] = by
  const agent = join(import.meta.dirname, "agent.ts")
  const child = spawn(program, [...args, process.execPath, "--conditions=source", agent], {
    stdio: ["pipe", "pipe", "inherit"],
  })
  const gone = once(child, "exit")
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  const ready = Promise.withResolvers<void>()
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, result, error } = JSON.parse(line)
    if (id === undefined) return ready.resolve()
    if (error === undefined) waiting.get(id)?.resolve(result)
    else waiting.get(id)?.reject(new CallFailed(error))
    waiting.delete(id)
  })
  const ended = new Error("the agent ended")
  let hasEnded = false
  void gone.then(() => {
    hasEnded = true
    ready.reject(ended)
    for (const { reject } of waiting.values()) reject(ended)
    waiting.clear()
  })
  await ready.promise

  let calls = 0
  const call: Namespace["call"] = (name, argument) => {
    if (hasEnded) return Promise.reject(ended)
    const id = ++calls
    const reply = Promise.withResolvers<unknown>()
    waiting.set(id, reply)
    child.stdin.write(`${JSON.stringify({ id, call: name, argument })}\n`)
    return reply.promise as Promise<never>
  }
  const run: Namespace["run"] = (command) => {
    const [program = "", ...args] = command.split(" ")
    return call("run", [program, ...args])
  }
  return {
    pid: child.pid ?? Number.NaN,
    call,
    run,
    async ip(...commands) {
      for (const command of commands) await run(`ip ${command}`)
    },
    async kill() {
      child.kill("SIGKILL")
      await gone
    },
  }
}
