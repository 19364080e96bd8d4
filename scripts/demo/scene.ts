import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { run, type Server, show, startServer } from "./processes.ts"

export interface BerthCall {
  /** The exit statuses that are no failure. Default: 0. */
  readonly accept?: readonly number[]
  readonly cwd?: string
}

/** The things that the steps of the demo share. */
export interface Scene {
  /** The project's directory. */
  readonly root: string
  /** The directory for the demo's files. */
  readonly directory: string
  /** Aborted when the demo is interrupted. */
  readonly signal: AbortSignal
  /** Runs a program to its end, with its output shown to the reader. */
  show(command: string, ...args: string[]): Promise<void>
  /** Runs a command of Berth on the demo's data directory, and returns its output. */
  berth(args: readonly string[], how?: BerthCall): Promise<string>
  startServer(): Promise<Server>
  /** The server that an earlier step started. */
  server(): Server
  /** Registers something to undo at the end, however the demo ends: the last first. */
  defer(undo: () => unknown): void
  close(): Promise<void>
}

export const openScene = (signal: AbortSignal): Scene => {
  const root = fileURLToPath(new URL("../..", import.meta.url))
  const dir = mkdtempSync(join(tmpdir(), "berth-demo-"))
  const undo: (() => unknown)[] = [() => rmSync(dir, { recursive: true, force: true })]
  const options = { env: ownEnvironment(dir), signal }
  const launcher = join(root, "bin/berth")
  const onDataDir = ["--data-dir", join(dir, "data")]
  let server: Server | undefined

  return {
    root,
    directory: dir,
    signal,
    show: (command, ...args) => show(command, args, options),
    berth: (args, how) => run(launcher, [...args, ...onDataDir], { ...options, ...how }),
    startServer: async () => {
      server = await startServer(launcher, onDataDir, options)
      undo.push(server.stop)
      return server
    },
    server: () => {
      if (server === undefined) throw new Error("no step has started a server")
      return server
    },
    defer: (step) => void undo.push(step),
    close: async () => {
      for (const step of undo.splice(0).reverse()) await step()
    },
  }
}

/** The caller's environment without a configuration of Berth: the demo shows the defaults. */
const ownEnvironment = (dir: string): NodeJS.ProcessEnv => {
  const configDir = join(dir, "config")
  mkdirSync(configDir)
  const others = Object.entries(process.env).filter(([name]) => !name.startsWith("BERTH_"))
  return { ...Object.fromEntries(others), XDG_CONFIG_HOME: configDir }
}
