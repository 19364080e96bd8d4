import { type ChildProcessByStdio, spawn } from "node:child_process"
import { once } from "node:events"
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { createInterface } from "node:readline"
import type { Readable, Writable } from "node:stream"
import { fileURLToPath } from "node:url"
import { InstallationId } from "@berth/protocol/ids"
import { type Client, createClient } from "@berth/sdk/client"
import { afterAll, beforeAll } from "vitest"
import { type BackendName, choiceOf } from "../backends.ts"
import { startEngine } from "../docker/engine.ts"
import { forgetFence } from "../docker/forget-fence.ts"
import { buildToolbox } from "../toolboxes/build.ts"
import { insist } from "./insist.ts"
import { type ChildSettings, TOKEN } from "./settings.ts"

const CHILD = fileURLToPath(new URL("./child.ts", import.meta.url))

type Server = ChildProcessByStdio<Writable, Readable, Readable>

/** An engine for the sandboxes, and its traces on the host. */
export interface WorldEngine {
  readonly backend: ChildSettings["backend"]
  /** Names that stand in mounts, cgroups and commands of its containers, also of those that are gone. */
  readonly marks: () => Promise<readonly string[]>
  readonly network: "none" | "open"
}

const EMBEDDED: WorldEngine = {
  backend: { name: "embedded" },
  marks: async () => [],
  network: "open",
}

/** A server that has not reached the step of its death within this time will not reach it. */
const DEATH_MS = 30_000

/** Opens a data directory, with a server on it that dies at the step that a test names. */
export const openWorld = async (
  signal: AbortSignal,
  { backend, marks, network }: WorldEngine = EMBEDDED,
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

  const start = async (policy: ChildSettings["policy"] = {}): Promise<void> => {
    const settings: ChildSettings = { dataDir, toolbox, backend, port, policy }
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
  /** Kills the server. Fails if it had ended before, or ends in another way. */
  const kill = async (): Promise<void> => {
    if (server === undefined || isDead()) throw new Error("the server had ended before")
    const ended = once(server, "exit")
    server.kill("SIGKILL")
    await ended
    requireKilled()
  }
  const requireKilled = () => {
    if (server?.signalCode !== "SIGKILL")
      throw new Error(`the server was not killed: it ended with ${server?.exitCode}`)
  }

  await start()
  const { installationId } = await (client as unknown as Client).status()
  return {
    dataDir,
    network,
    installation: InstallationId.parse(installationId),
    engineMarks: marks,
    pid: () => server?.pid ?? 0,
    client: () => client as Client,
    log: () => log,
    /** Names the step at which the server dies when it next comes there. */
    dieAt: (step: string) => server?.stdin.write(`${step}\n`),
    isDead,
    kill,
    /** Resolves when the server has killed itself at that step. Fails if it does not come there, or ends in another way. */
    death: async () => {
      if (server !== undefined && !isDead())
        await once(server, "exit", { signal: AbortSignal.timeout(DEATH_MS) }).catch((cause) => {
          throw new Error("the server did not come to where it was to die", { cause })
        })
      requireKilled()
    },
    /** Starts a server after the death of the last one. */
    start,
    /** Kills the server, and starts another. */
    restart: async (policy: ChildSettings["policy"] = {}) => {
      await kill()
      await start(policy)
    },
    sharedDirectories: () => readdirSync(join(dataDir, "shared")),
    tops: () => entries(join(dataDir, "layers", "tops")),
    close: async () => {
      if (isDead()) await start()
      const { sandboxes } = client as Client
      for (const { identity } of await insist(() => sandboxes.list()))
        await sandboxes.remove(identity.sandbox, { force: true })
      if (!isDead()) await kill()
      if (backend.name === "docker") await forgetFence(InstallationId.parse(installationId))
      rmSync(base, { recursive: true, force: true })
    },
  }
}

const entries = (path: string): string[] => (existsSync(path) ? readdirSync(path) : [])

export type World = Awaited<ReturnType<typeof openWorld>>

/** Opens one world for all tests of a file. */
export const worldOfFile = (
  engine: () => Promise<WorldEngine> = async () => EMBEDDED,
): (() => World) => {
  let world: World | undefined
  beforeAll(async () => {
    world = await openWorld(AbortSignal.timeout(STAGE_MS), await engine())
  }, STAGE_MS)
  afterAll(() => world?.close(), STAGE_MS)
  return () => world as World
}

/** The engine of a backend: for Docker, the one that the tests of a run share. */
export const engineOf = async (name: BackendName): Promise<WorldEngine> =>
  name === "embedded"
    ? EMBEDDED
    : { backend: await choiceOf(name), marks: async () => [], network: "none" }

/** Like worldOfFile, on a Docker engine of its own. */
export const dockerWorldOfFile = () => {
  let engine: Awaited<ReturnType<typeof startEngine>> | undefined
  let world: World | undefined
  beforeAll(async () => {
    engine = await startEngine()
    const { choice: backend, data, containers } = engine
    const seen = new Set([dirname(data)])
    const marks = async () => {
      for (const { Id } of await containers()) seen.add(Id)
      return [...seen]
    }
    world = await openWorld(AbortSignal.timeout(STAGE_MS), { backend, marks, network: "none" })
  }, STAGE_MS)
  afterAll(async () => {
    try {
      await world?.close()
    } finally {
      await engine?.stop()
    }
  }, STAGE_MS)
  return { world: () => world as World, engine: () => engine as NonNullable<typeof engine> }
}

const STAGE_MS = 180_000
