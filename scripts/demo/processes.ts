import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { createInterface } from "node:readline"
import { text } from "node:stream/consumers"

interface Options {
  readonly env: NodeJS.ProcessEnv
  readonly signal: AbortSignal
}

interface Choices {
  /** The exit statuses that are no failure. */
  readonly accept?: readonly number[]
  readonly cwd?: string
}

/** Runs a program to its end and returns its output; its error output reaches the reader at once. */
export const run = async (
  command: string,
  args: readonly string[],
  { env, signal, cwd, accept = [0] }: Options & Choices,
): Promise<string> => {
  const where = cwd === undefined ? {} : { cwd }
  const child = spawn(command, args, {
    env,
    signal,
    ...where,
    stdio: ["ignore", "pipe", "inherit"],
  })
  const [output, status] = await Promise.all([text(child.stdout), exitOf(child)])
  if (accept.some((accepted) => accepted === status)) return output
  throw new Error(`\`${[command, ...args].join(" ")}\` ended with ${status}`)
}

/** Runs a program that takes its time, with its output shown to the reader. */
export const show = async (
  command: string,
  args: readonly string[],
  { env, signal }: Options,
): Promise<void> => {
  const status = await exitOf(spawn(command, args, { env, signal, stdio: "inherit" }))
  if (status !== 0) throw new Error(`\`${[command, ...args].join(" ")}\` ended with ${status}`)
}

export interface Server {
  readonly url: string
  /** Asks the server to stop, and returns its exit status. May be called twice. */
  stop(): Promise<number | NodeJS.Signals>
}

/** Starts a server on a free port; resolves when it answers. */
export const startServer = async (
  launcher: string,
  args: readonly string[],
  { env, signal }: Options,
): Promise<Server> => {
  // The log is limited to warnings, because it would hide the steps; failures go to standard error.
  const own = ["serve", "--json", "--port", "0", "--log-level", "warn"]
  const child = spawn(launcher, [...own, ...args], { env, stdio: ["ignore", "pipe", "inherit"] })
  const exited = exitOf(child)
  let stopped = false
  const stop = () => {
    if (!stopped) child.kill("SIGTERM")
    stopped = true
    return exited
  }
  signal.addEventListener("abort", () => void stop(), { once: true })
  const lines = createInterface({ input: child.stdout })
  const [line] = await Promise.race([once(lines, "line"), exited.then(() => [])])
  if (line === undefined) throw new Error(`the server ended with ${await exited}`)
  return { url: JSON.parse(line).url, stop }
}

const exitOf = async (child: ChildProcess): Promise<number | NodeJS.Signals> => {
  const [status, signal] = await once(child, "close")
  return status ?? signal
}
