import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { text } from "node:stream/consumers"
import { BERTH } from "@berth/testing/berth"
import { onTestFinished } from "vitest"

export interface Surroundings {
  readonly env?: Readonly<Record<string, string>>
  readonly cwd?: string
  /** Arguments for Node, such as a script to load first. */
  readonly node?: readonly string[]
}

/** A directory of this test, removed after it. */
export const makeDir = (): string => {
  const dir = mkdtempSync(join(tmpdir(), "berth-cli-"))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** Runs a command to its end. */
export const berth = async (args: readonly string[], surroundings: Surroundings = {}) => {
  const child = start(args, surroundings)
  const [stdout, stderr, status] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    exitOf(child),
  ])
  return { stdout, stderr, status }
}

/** Starts `berth serve` and waits until it prints its address. */
export const startServer = async (args: readonly string[], surroundings: Surroundings = {}) => {
  const child = start(["serve", "--port", "0", "--json", ...args], surroundings)
  const exited = exitOf(child)
  const log: string[] = []
  createInterface({ input: child.stderr }).on("line", (line) => log.push(line))
  const lines = createInterface({ input: child.stdout })
  const [first] = await Promise.race([once(lines, "line"), exited.then(() => [])])
  if (first === undefined) throw new Error(`the server ended: ${log.join("\n")}`)
  const { url, pid, dataDir } = JSON.parse(first) as { url: string; pid: number; dataDir: string }
  return {
    url,
    pid,
    dataDir,
    child,
    /** The exit status, or the signal that ended it. */
    exited,
    log,
    stop: (signal: NodeJS.Signals = "SIGTERM") => {
      child.kill(signal)
      return exited
    },
  }
}

const start = (args: readonly string[], { env = {}, cwd, node = [] }: Surroundings) => {
  const [command, ...own] = BERTH
  return startProcess(command, [...node, ...own, ...args], { env, cwd })
}

interface ProcessOptions {
  /** Undefined values are not passed on. */
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly cwd?: string | undefined
  /** Runs the process as another user and group. */
  readonly as?: { readonly uid: number; readonly gid: number }
}

/** Starts a process that has nothing of the caller's configuration or home, and that ends with the test. */
export const startProcess = (
  command: string,
  args: readonly string[],
  { env = {}, cwd, as }: ProcessOptions = {},
) => {
  const home = makeDir()
  const child = spawn(command, args, {
    env: {
      PATH: process.env.PATH,
      NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
      HOME: home,
      XDG_STATE_HOME: home,
      XDG_CONFIG_HOME: home,
      ...env,
    },
    stdio: ["pipe", "pipe", "pipe"],
    ...(cwd !== undefined && { cwd }),
    ...as,
  })
  const gone = exitOf(child)
  onTestFinished(async () => {
    child.kill("SIGKILL")
    await gone
  })
  return child
}

/** The exit status or the signal that ended the process, once all its output has arrived. */
export const exitOf = async (child: ChildProcess): Promise<number | NodeJS.Signals> => {
  const [status, signal] = await once(child, "close")
  return status ?? signal
}
