import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { text } from "node:stream/consumers"
import { readToken } from "@berth/local/token"
import { InstallationId } from "@berth/protocol/ids"
import { type Client, createClient } from "@berth/sdk/client"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { BERTH } from "@berth/testing/berth"
import { forgetFence } from "../docker/forget-fence.ts"
import { giveToolbox } from "../toolboxes/give.ts"

export interface Told {
  readonly stdout: Buffer
  readonly stderr: string
  readonly status: number | NodeJS.Signals
}

/** Commands that have subcommands. */
const GROUPS = ["commands", "layers", "sessions", "toolbox"]

/** A command for a data directory: the flag stands behind the words that name the command. */
export const onDataDir = (dataDir: string, args: readonly string[]): string[] => {
  const [name = "", second = "-"] = args
  const words = GROUPS.includes(name) && !second.startsWith("-") ? 2 : 1
  return [...args.slice(0, words), "--data-dir", dataDir, ...args.slice(words)]
}

/** Starts a real server on a data directory of its own, which can be killed and started again. */
export const openServer = async (
  flags: readonly string[] = [],
  directory = tmpdir(),
  variables: Readonly<Record<string, string>> = {},
) => {
  const base = mkdtempSync(join(directory, "berth-sandboxes-e2e-"))
  // Sandboxes have their toolbox from here, and their users have no rights outside.
  chmodSync(base, 0o711)
  const dataDir = join(base, "data")
  mkdirSync(dataDir, { mode: 0o711 })
  const takeToolbox = await giveToolbox(dataDir)
  const log: string[] = []
  let server: ChildProcess | undefined
  let client: Client | undefined

  const { PATH, NODE_COMPILE_CACHE } = process.env
  const env = { PATH, NODE_COMPILE_CACHE, HOME: base, ...variables }
  const start = async () => {
    const [node, ...own] = BERTH
    const args = [...own, "serve", "--port", "0", "--json", "--data-dir", dataDir, ...flags]
    const child = spawn(node, args, { env, stdio: ["ignore", "pipe", "pipe"] })
    server = child
    createInterface({ input: child.stderr }).on("line", (line) => log.push(line))
    const lines = createInterface({ input: child.stdout })
    const [first] = await Promise.race([once(lines, "line"), once(child, "exit").then(() => [])])
    if (first === undefined) throw new Error(`the server ended: ${log.join("\n")}`)
    const { url } = JSON.parse(first) as { url: string }
    const token = (await readToken(dataDir)) ?? ""
    client = createClient({ url, token })
    return { url, token }
  }
  const stop = async (signal: NodeJS.Signals) => {
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return
    const ended = once(server, "exit")
    server.kill(signal)
    await ended
  }
  const commandOf = (args: readonly string[]) => [...BERTH, ...onDataDir(dataDir, args)] as const
  const berth = async (args: readonly string[], input: string | Buffer = ""): Promise<Told> => {
    const child = startBerth(args)
    child.stdin.end(input)
    const [chunks, stderr, [status, signal]] = await Promise.all([
      child.stdout.toArray() as Promise<Buffer[]>,
      text(child.stderr),
      once(child, "close"),
    ])
    return { stdout: Buffer.concat(chunks), stderr, status: status ?? signal }
  }
  const startBerth = (args: readonly string[]) => {
    const [node, ...own] = commandOf(args)
    return spawn(node, own, { env, cwd: base })
  }
  let access = await start()
  return {
    base,
    dataDir,
    log,
    access: () => access,
    pid: () => server?.pid ?? 0,
    client: () => client as Client,
    sandbox: (id: string): Sandbox => (client as Client).sandboxes.at(id),
    env,
    commandOf,
    berth,
    startBerth,
    /** Kills the server, as a power cut would. The host goes on. */
    kill: () => stop("SIGKILL"),
    restart: async () => {
      access = await start()
    },
    close: async () => {
      if (server?.signalCode !== null || server?.exitCode !== null) await start()
      for (const { identity } of await (client as Client).sandboxes.list())
        await (client as Client).sandboxes.remove(identity.sandbox, { force: true })
      const { installationId } = await (client as Client).status()
      await stop("SIGTERM")
      if (flags.includes("docker")) await forgetFence(InstallationId.parse(installationId))
      await takeToolbox()
      rmSync(base, { recursive: true, force: true })
    },
  }
}
