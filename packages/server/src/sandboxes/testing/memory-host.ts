import type { Layers } from "@berth/layers/layers"
import { BerthError } from "@berth/protocol/errors"
import { newId, type SandboxId, type Slug } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"
import { ToolboxId } from "@berth/protocol/toolbox"
import type { Kysely } from "kysely"
import { NO_KEYS } from "../../keys/keys.ts"
import { createLogger } from "../../logging/logger.ts"
import { Secrets } from "../../logging/secrets.ts"
import type { Database } from "../../store/database.ts"
import type { Policy } from "../deciding/decide.ts"
import type { BridgeCall, Bridges } from "../keeping/bridges.ts"
import type { ToolboxWait } from "../making/current-toolbox.ts"
import { openSandboxes, type Sandboxes } from "../sandboxes.ts"
import type { Clock } from "../state/clock.ts"
import type { Records, SandboxRecord } from "../state/records.ts"
import type { SharedDirectories, SharedDirectory } from "../state/shared-directories.ts"
import type { Inside } from "./inside.ts"
import type { MemoryBackend } from "./memory-backend.ts"

export interface MemoryHost {
  readonly db: Kysely<Database>
  readonly backend: MemoryBackend
  readonly clock: Clock
  readonly policy: Policy
  /**
   * Runs each boot: resolves when it is ready, rejects with why it failed. A BerthError names the step in its details.
   * `onState` reports whether the sandbox is reached.
   */
  readonly boot?: (sandbox: SandboxId, onState: BridgeCall["onState"]) => void | Promise<void>
  /** The contents of each sandbox. */
  readonly inside?: (sandbox: SandboxId) => Pick<Inside, "answer">
  readonly trace?: Bridges["trace"]
  /** Called for the toolbox of each sandbox, before the toolbox is there. */
  readonly prepare?: (wait?: ToolboxWait) => Promise<void>
}

const toolbox = { id: ToolboxId.parse(`tb-${"0".repeat(40)}`), directory: "/toolbox" }
const secrets = new Secrets()
const log = await createLogger({
  level: "fatal",
  pretty: false,
  secrets,
  destination: { write: () => {} },
})

/** Opens sandboxes on an engine, files and shared directories in memory. */
export const openMemoryHost = ({
  db,
  backend,
  clock,
  policy,
  boot = () => {},
  inside,
  trace = refuse,
  prepare = async () => {},
}: MemoryHost): Promise<Sandboxes> =>
  openSandboxes({
    store: { db },
    backend: backend.asBackend(),
    clock,
    policy,
    log,
    secrets,
    environment: {},
    keys: NO_KEYS,
    certificates: () => NO_CERTIFICATES,
    installation: newId.installation(),
    at: () => {},
    toolbox: (_agent, wait) => prepare(wait).then(() => toolbox),
    shortage: async () => undefined,
    layers: layers(),
    sharedDirectories,
    records,
    events: {
      take: async () => {},
      lastSeen: async () => 0,
      tell: async () => {},
      closeSessions: async () => {},
      ended: async () => [],
    },
    bridges: {
      open: (call) => open(call, boot),
      activity: ({ sandbox }, change, signal) =>
        inside === undefined ? Promise.resolve(NOTHING) : inside(sandbox).answer(change, signal),
      dial: refuse,
      put: refuse,
      left: async function* () {},
      trace,
    },
  })

const NO_CERTIFICATES = { added: [], warnings: [] }

const NOTHING = {
  version: 1,
  prompts: [],
  commands: [],
  terminals: [],
  leftProcesses: 0,
}

const refuse = (): Promise<never> => Promise.reject(new Error("it is in memory"))

const open = (
  { sandbox, onEvents, onState }: BridgeCall,
  boot: NonNullable<MemoryHost["boot"]>,
): ReturnType<Bridges["open"]> => {
  const tell = (body: Parameters<typeof onEvents>[0][number]["body"]) =>
    onEvents([{ sequence: 1, at: new Date(0).toISOString(), body }])
  const run = async () => {
    onState({ kind: "up" })
    try {
      await boot(sandbox, onState)
    } catch (thrown) {
      const step = thrown instanceof BerthError ? String(thrown.details.step) : null
      const ending = { step, reason: String(thrown), atMs: 1, others: [] }
      return await tell({ type: "boot.ending", atMs: 1, ending })
    }
    await tell({ type: "boot.ready", atMs: 1 })
  }
  void run()
  return {
    state: { kind: "up" },
    closed: Promise.resolve(),
    startPrompt: refuse,
    stopPrompt: refuse,
    answerPrompt: refuse,
  }
}

/** The shared directories of all servers: they are on disk and outlive a server. */
const sharedDirectories: SharedDirectories = (() => {
  const all = new Map<SandboxId, SharedDirectory>()
  return {
    find: async (sandbox) => all.get(sandbox),
    list: async () => [...all.keys()],
    latest: async () => [...all.keys()].at(-1),
    make: async ({ sandbox }) => {
      const shared = { sandbox, directory: `/shared/${sandbox}`, socket: "/socket", token: "token" }
      all.set(sandbox, shared)
      return shared
    },
    remove: async (sandbox) => {
      all.delete(sandbox)
    },
  }
})()

const records: Records = (() => {
  const all = new Map<SandboxId, SandboxRecord>()
  return {
    write: async (sandbox, record) => {
      all.set(sandbox, record)
    },
    read: async (sandbox) => all.get(sandbox),
  }
})()

/**
 * Layers in memory. A workspace has files from its first sandbox to its removal, and only one sandbox at a time has
 * them: that much is real.
 */
const layers = (): Layers => {
  const stacked = new Set<Slug>()
  const claims = new Map<string, SandboxId>()
  const keyOf = ({ workspace, name }: { workspace: string; name: string }) => `${workspace}/${name}`
  const mount = { cwd: "/layers", lower: ["l"], upper: "u", work: "w", options: [] }
  const some: Partial<Record<keyof Layers, unknown>> = {
    hasStacks: async (workspace: Slug) => stacked.has(workspace),
    findOwnerless: async () => ({ stacked: [...stacked], noted: [] }),
    noteOwnerless: async () => Date.now(),
    ensureTop: async ({ workspace }: StackKey) => {
      stacked.add(workspace)
    },
    claimTop: async (key: Parameters<Layers["claimTop"]>[0], sandbox: SandboxId) => {
      const holder = claims.get(keyOf(key))
      if (holder !== undefined && holder !== sandbox) throw new Error(`${holder} has its files`)
      claims.set(keyOf(key), sandbox)
      return { mount }
    },
    releaseStack: async (key: Parameters<Layers["releaseStack"]>[0], sandbox: SandboxId) => {
      if (claims.get(keyOf(key)) === sandbox) claims.delete(keyOf(key))
    },
    remove: async ({ workspace }: StackKey) => {
      stacked.delete(workspace)
    },
    importTrees: async (from: AsyncIterable<Buffer>) => {
      for await (const _ of from) {
      }
      return { layers: [], isBooted: false }
    },
    put: async ({ workspace }: StackKey) => {
      stacked.add(workspace)
    },
    collect: async () => ({ layers: [], tops: [] }),
  }
  return some as Layers
}
