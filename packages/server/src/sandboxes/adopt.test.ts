import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Backend } from "@berth/backends/backend"
import type { Layers } from "@berth/layers/layers"
import { BootPlan } from "@berth/protocol/boot-plan"
import { newId, type SandboxId } from "@berth/protocol/ids"
import { ConfigHash } from "@berth/protocol/sandbox"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { expect, it, onTestFinished } from "vitest"
import { NO_KEYS } from "../keys/keys.ts"
import { createLogger } from "../logging/logger.ts"
import { Secrets } from "../logging/secrets.ts"
import { openStored } from "../sessions/stored.ts"
import { openStore } from "../store/open.ts"
import { DEFAULT_POLICY } from "./deciding/policy.ts"
import type { BridgeCall, Bridges } from "./keeping/bridges.ts"
import { openSandboxes } from "./sandboxes.ts"
import { systemClock } from "./state/clock.ts"
import { openRecords } from "./state/records.ts"
import { openRows } from "./state/rows.ts"
import { openSharedDirectories } from "./state/shared-directories.ts"

it("[R1.9] adopts known sandboxes by one look at the engine, and resumes after their last acknowledged event", async () => {
  const root = mkdtempSync(join(tmpdir(), "berth-adopt-"))
  onTestFinished(() => rmSync(root, { recursive: true }))
  const [known, stranger, gone] = [newId.sandbox(), newId.sandbox(), newId.sandbox()]
  const sharedDirectories = openSharedDirectories({ root, owner: process.geteuid?.() ?? 0 })
  const records = openRecords(root)
  const workspace = WorkspaceSpec.parse({ slug: "app" })
  const { hooks, environment, agent, sidecars } = workspace
  for (const sandbox of [known, gone]) {
    await records.write(sandbox, { workspace, mode: "fresh" })
    const boot = { repos: [], hooks, environment, agent, sidecars }
    await sharedDirectories.make(BootPlan.parse({ sandbox, mode: "fresh", ...boot }))
  }

  let lists = 0
  const asked = Promise.withResolvers<void>()
  const opened: BridgeCall[] = []
  const notAskedFor = () => Promise.reject(new Error("not asked for"))
  const open: Bridges["open"] = (options) => {
    opened.push(options)
    return {
      state: { kind: "up" },
      closed: Promise.resolve(),
      startPrompt: notAskedFor,
      stopPrompt: notAskedFor,
      answerPrompt: notAskedFor,
    }
  }
  const configHash = ConfigHash.parse("0".repeat(64))
  const observed = [known, stranger].map((sandbox) => ({
    identity: { sandbox, configHash, workspace: workspace.slug },
    state: "running",
    createdAt: "2026",
    unheldLimits: [],
  }))
  const backend = {
    describe: async () => ({ pause: true, layers: true }),
    list: async () => {
      lists++
      return observed
    },
    inspect: async (sandbox: SandboxId) =>
      observed.find(({ identity }) => identity.sandbox === sandbox),
    watch: async function* () {},
  } as unknown as Backend
  const secrets = new Secrets()
  const destination = { write: () => {} }
  const store = await openStore({ dataDir: join(root, "data") })
  const rows = openRows(store.db, systemClock)
  await rows.insert({
    id: known,
    workspace: workspace.slug,
    configHash,
    mode: "fresh",
    phase: "ready",
  })
  await store.db.updateTable("sandboxes").set({ last_seen: 41 }).execute()
  const { events } = openStored({ store, clock: systemClock })
  const sandboxes = await openSandboxes({
    store,
    policy: DEFAULT_POLICY,
    clock: systemClock,
    at: () => {},
    layers: {} as unknown as Layers,
    shortage: async () => undefined,
    backend,
    sharedDirectories,
    records,
    secrets,
    environment: {},
    installation: newId.installation(),
    keys: NO_KEYS,
    events,
    log: await createLogger({ level: "error", pretty: false, secrets, destination }),
    bridges: { open, activity: () => Promise.reject(new Error("silent")) } as unknown as Bridges,
    toolbox: async () => {
      asked.resolve()
      return await Promise.reject(new Error("there is none"))
    },
  })
  const { signal } = new AbortController()
  await sandboxes.adopt(signal)
  await asked.promise
  expect(lists).toBe(1)
  expect(opened).toMatchObject([{ sandbox: known, lastSeen: 41 }])
  const phases = (await sandboxes.views.list(signal)).map(({ identity, phase }) => [
    ...[identity.sandbox, phase],
  ])
  expect(Object.fromEntries(phases)).toEqual({ [known]: "ready", [stranger]: "quarantined" })
  expect(await sharedDirectories.find(gone)).toBe(undefined)

  // The event is stored before `onEvents` returns, which acknowledges it.
  const body = { type: "warning" as const, message: "x" }
  await opened[0]?.onEvents([{ sequence: 42, at: "2026-01-01T00:00:00.000Z", body }])
  expect(await events.lastSeen(known)).toBe(42)
  await sandboxes.close()
  await store.close()
})
