import { type ChildProcessByStdio, spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import type { Readable, Writable } from "node:stream"
import { fileURLToPath } from "node:url"
import { type Client, createClient } from "@berth/sdk/client"
import { afterAll, beforeAll } from "vitest"
import { buildToolbox } from "../toolboxes/build.ts"
import { type ChildSettings, TOKEN } from "./settings.ts"

const CHILD = fileURLToPath(new URL("./child.ts", import.meta.url))

type Server = ChildProcessByStdio<Writable, Readable, Readable>

/** A data directory, and the server on it, which dies where it is told to. */
export const openWorld = async (
  signal: AbortSignal,
  backend: ChildSettings["backend"] = { name: "embedded" },
) => {
  const base = mkdtempSync(join(tmpdir(), "berth-crash-e2e-"))
  chmodSync(base, 0o711)
  const dataDir = join(base, "data")
  mkdirSync(dataDir, { mode: 0o711 })
  const toolbox = await buildToolbox("small", join(dataDir, "toolbox"), signal)
  let port = 0
  let server: Server | undefined
  let client: Client | undefined
  let log: string[] = []

  const start = async (): Promise<void> => {
    const settings: ChildSettings = { dataDir, toolbox, backend, port }
    const args = ["--conditions=source", CHILD, JSON.stringify(settings)]
    const { PATH, NODE_COMPILE_CACHE } = process.env
    const env = { PATH, NODE_COMPILE_CACHE, HOME: base }
    const child = spawn(process.execPath, args, { env, stdio: ["pipe", "pipe", "pipe"] })
    server = child
    log = []
    child.stdin.on("error", () => {})
    createInterface({ input: child.stderr }).on("line", (line) => log.push(line))
    const lines = createInterface({ input: child.stdout })
    const [url] = await Promise.race([once(lines, "line"), once(child, "exit").then(() => [])])
    if (url === undefined) throw new Error(`the server ended: ${log.join("\n")}`)
    port = Number(new URL(url).port)
    client = createClient({ url, token: TOKEN })
  }

  const isDead = () => server?.exitCode !== null || server.signalCode !== null
  const kill = async (): Promise<void> => {
    if (server === undefined || isDead()) return
    const ended = once(server, "exit")
    server.kill("SIGKILL")
    await ended
  }

  await start()
  return {
    dataDir,
    pid: () => server?.pid ?? 0,
    client: () => client as Client,
    log: () => log,
    /** Where it dies, the next time that it comes there. */
    dieAt: (step: string) => server?.stdin.write(`${step}\n`),
    isDead,
    kill,
    /** Resolves when it has died of its own. */
    death: async () => {
      if (server !== undefined && !isDead()) await once(server, "exit")
    },
    restart: async () => {
      await kill()
      await start()
    },
    links: () => readdirSync(join(dataDir, "links")),
    tops: () => entries(join(dataDir, "layers", "tops")),
    close: async () => {
      if (isDead()) await start()
      const { sandboxes } = client as Client
      for (const { identity } of await sandboxes.list())
        await sandboxes.remove(identity.sandbox, { force: true })
      await kill()
      rmSync(base, { recursive: true, force: true })
    },
  }
}

const entries = (path: string): string[] => (existsSync(path) ? readdirSync(path) : [])

export type World = Awaited<ReturnType<typeof openWorld>>

/** One for all tests of a file. */
export const worldOfFile = (
  backend: () => Promise<ChildSettings["backend"]> = async () => ({ name: "embedded" }),
): (() => World) => {
  let world: World | undefined
  beforeAll(async () => {
    world = await openWorld(AbortSignal.timeout(STAGE_MS), await backend())
  }, STAGE_MS)
  afterAll(() => world?.close(), STAGE_MS)
  return () => world as World
}

const STAGE_MS = 180_000
