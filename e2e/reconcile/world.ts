import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ContractHarness } from "@berth/backends/testing/contract/harness"
import { openLayers } from "@berth/layers/open"
import type { Activity } from "@berth/protocol/activity"
import { BootPlan } from "@berth/protocol/boot-plan"
import { newId, type SandboxId, Slug } from "@berth/protocol/ids"
import { ConfigHash, SandboxConfig } from "@berth/protocol/sandbox"
import { ToolboxId } from "@berth/protocol/toolbox"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { bridges } from "@berth/server/bridges"
import { NO_KEYS } from "@berth/server/keys/keys"
import { createLogger } from "@berth/server/logging/logger"
import { Secrets } from "@berth/server/logging/secrets"
import { DEFAULT_POLICY } from "@berth/server/sandboxes/deciding/policy"
import { desiredConfigOf } from "@berth/server/sandboxes/making/desired-configs"
import { openSandboxes } from "@berth/server/sandboxes/sandboxes"
import { systemClock } from "@berth/server/sandboxes/state/clock"
import { openRecords } from "@berth/server/sandboxes/state/records"
import { openRows } from "@berth/server/sandboxes/state/rows"
import { openSharedDirectories } from "@berth/server/sandboxes/state/shared-directories"
import { openWorkspaces } from "@berth/server/sandboxes/state/workspaces"
import { openStored } from "@berth/server/sessions/stored"
import { openStore } from "@berth/server/store/open"

/** Runs until it is asked to end. */
const WAIT = ["/bin/sh", "-c", "trap 'exit 0' TERM; echo up; sleep 1000 & wait"]
const TOOLBOX = { id: ToolboxId.parse(`tb-${"0".repeat(40)}`), directory: "/nonexistent" }
const NOTHING: Activity = {
  version: 1,
  prompts: [],
  commands: [],
  terminals: [],
  leftProcesses: 0,
}

export interface Given {
  readonly known: boolean
  readonly stale: boolean
  readonly running: boolean
  /** The activity that the sandbox's supervisor would report. */
  readonly life?: Partial<Activity>
  /** Whether the sandbox does not answer. */
  readonly silent?: boolean
}

/** Opens a server's sandboxes on a real engine. They run no supervisor: its reports are played. */
export const openWorld = async ({ backend, installation, system }: ContractHarness) => {
  const dataDir = await mkdtemp(join(tmpdir(), "berth-reconcile-"))
  const store = await openStore({ dataDir })
  const lives = new Map<SandboxId, Activity>()
  const secrets = new Secrets()
  const log = await createLogger({
    level: "error",
    pretty: false,
    secrets,
    destination: { write: () => {} },
  })
  const root = join(dataDir, "shared")
  const sharedDirectories = openSharedDirectories({ root, owner: backend.idBase })
  const records = openRecords(root)
  const over = new AbortController()
  const sandboxes = await openSandboxes({
    backend,
    store,
    log,
    secrets,
    environment: {},
    keys: NO_KEYS,
    installation,
    sharedDirectories,
    records,
    layers: await openLayers({ root: join(dataDir, "layers"), idBase: backend.idBase }),
    events: openStored({ store, clock: systemClock }).events,
    bridges: {
      ...bridges,
      activity: async ({ sandbox }, change, signal) => {
        if (change !== undefined) await firing(AbortSignal.any([signal, over.signal]))
        const activity = lives.get(sandbox)
        if (activity === undefined) throw new Error("it is silent")
        return activity
      },
    },
    toolbox: async () => TOOLBOX,
    policy: { ...DEFAULT_POLICY, pauseAfterMs: null, stopAfterMs: null },
    clock: systemClock,
    at: () => {},
    shortage: async () => undefined,
  })
  const rows = openRows(store.db, systemClock)
  const workspaces = openWorkspaces(store.db, systemClock)

  const add = async ({
    known,
    stale,
    running,
    life = {},
    silent = false,
  }: Given): Promise<SandboxId> => {
    const sandbox = newId.sandbox()
    // With a network, its hash would follow this machine's own settings.
    const network = { kind: "none" as const }
    const spec = WorkspaceSpec.parse({ slug: Slug.parse(newId.sandbox()), network })
    const wanted = desiredConfigOf(spec, await backend.resolveSystem(spec.system), TOOLBOX, {
      variables: {},
      certificates: [],
    })
    const configHash = stale ? ConfigHash.parse("0".repeat(64)) : wanted.hash
    const identity = { installation, workspace: spec.slug, sandbox, configHash }
    const config = SandboxConfig.parse({ system, command: WAIT })
    await backend.create({ identity, config })
    await backend.start(sandbox)
    if (!running) await backend.stop(sandbox, { graceMs: 5_000 })
    await records.write(sandbox, { workspace: spec, mode: "fresh" })
    const { hooks, environment, agent, sidecars } = spec
    const boot = { repos: [], hooks, environment, agent, sidecars }
    await sharedDirectories.make(BootPlan.parse({ sandbox, mode: "fresh", ...boot }))
    if (!silent) lives.set(sandbox, { ...NOTHING, ...life })
    await workspaces.put(spec)
    const row = { id: sandbox, workspace: spec.slug, configHash, mode: "fresh" as const }
    if (known) await rows.insert({ ...row, phase: "ready" })
    return sandbox
  }

  return {
    sandboxes,
    add,
    phaseOf: async (sandbox: SandboxId) => (await rows.get(sandbox))?.phase,
    stateOf: async (sandbox: SandboxId) => (await backend.inspect(sandbox))?.state,
    close: async () => {
      over.abort()
      await sandboxes.close()
      await store.close()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

const firing = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => {
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener("abort", () => reject(signal.reason), { once: true })
  })
