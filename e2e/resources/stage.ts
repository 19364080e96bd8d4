import { chmodSync, mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Shortage } from "@berth/host/shortage"
import { openLayers } from "@berth/layers/open"
import type { EventBody } from "@berth/protocol/event"
import { newId, type SandboxId } from "@berth/protocol/ids"
import { WorkspaceSpec, type WorkspaceSpecInput } from "@berth/protocol/workspace"
import { bridges } from "@berth/server/bridges"
import { NO_KEYS } from "@berth/server/keys/keys"
import { createLogger } from "@berth/server/logging/logger"
import { Secrets } from "@berth/server/logging/secrets"
import { type BackendChoice, openBackend } from "@berth/server/open-backend"
import { DEFAULT_POLICY } from "@berth/server/sandboxes/deciding/policy"
import { rememberEvents } from "@berth/server/sandboxes/keeping/event-memory"
import { openSandboxes } from "@berth/server/sandboxes/sandboxes"
import { systemClock } from "@berth/server/sandboxes/state/clock"
import { openRecords } from "@berth/server/sandboxes/state/records"
import { openSharedDirectories } from "@berth/server/sandboxes/state/shared-directories"
import { openStored } from "@berth/server/sessions/stored"
import { openStore } from "@berth/server/store/open"
import { expect } from "vitest"
import { buildToolbox } from "../toolboxes/build.ts"

export type Stage = Awaited<ReturnType<typeof setStage>>

/** Opens real sandboxes on a host whose shortages a test plays. */
export const setStage = async (
  signal: AbortSignal,
  choice: BackendChoice = { name: "embedded" },
) => {
  const base = mkdtempSync(join(tmpdir(), "berth-resources-e2e-"))
  // Sandboxes have their toolbox from here, and their users have no rights outside.
  chmodSync(base, 0o711)
  const dataDir = join(base, "data")
  mkdirSync(dataDir, { mode: 0o711 })
  const toolbox = await buildToolbox("small", join(dataDir, "toolbox"), signal)
  const lines: string[] = []
  const secrets = new Secrets()
  const destination = { write: (line: string) => void lines.push(line) }
  const log = await createLogger({ level: "debug", pretty: false, secrets, destination })
  const store = await openStore({ dataDir })
  const installation = store.installationId
  const backend = await openBackend({ backend: choice, installation, dataDir, log }, signal)
  await backend.repair({ signal })
  const layers = await openLayers({ root: join(dataDir, "layers"), idBase: backend.idBase })
  const shared = join(dataDir, "shared")
  const enough: Shortage = async () => undefined
  let shortage = enough
  const { events, memoryOf } = rememberEvents(openStored({ store, clock: systemClock }).events)
  const sandboxes = await openSandboxes({
    backend,
    layers,
    store,
    installation,
    log,
    secrets,
    keys: NO_KEYS,
    shortage: (level) => shortage(level),
    policy: DEFAULT_POLICY,
    clock: systemClock,
    at: () => {},
    environment: { PATH: process.env.PATH, HOME: base },
    sharedDirectories: openSharedDirectories({ root: shared, owner: backend.idBase }),
    records: openRecords(shared),
    bridges,
    events,
    toolbox: async () => toolbox,
  })
  await sandboxes.adopt(signal)

  const up = async (spec: WorkspaceSpecInput): Promise<SandboxId> => {
    const network = { kind: "none" as const }
    const workspace = WorkspaceSpec.parse({ network, ...spec })
    const { sandbox } = await sandboxes.workspaces.up(workspace, { mode: "fresh" }, signal)
    await sandboxes.running.booted(sandbox, signal)
    await expect.poll(async () => (await sandboxes.views.get(sandbox, signal)).phase).toBe("ready")
    return sandbox
  }

  /** Runs a command as the agent's user, which must succeed, and returns its output. */
  const run = async (sandbox: SandboxId, text: string): Promise<string> => {
    const connection = sandboxes.running.connection(sandbox)
    const prompt = newId.prompt()
    await connection.startPrompt({ prompt, session: newId.session(), text })
    const end = await memoryOf(sandbox).until((body) => isEndOf(body, prompt))
    const said = memoryOf(sandbox)
      .events.map(({ body }) =>
        body.type === "message.delta" && body.prompt === prompt ? body.text : "",
      )
      .join("")
    if (end.type === "prompt.state" && end.state === "succeeded") return said
    throw new Error(`${JSON.stringify(end)}\n${said}`)
  }

  /** Plays a shortage of the host during the work. */
  const whileShort = async <Result>(
    told: Shortage,
    work: () => Promise<Result>,
  ): Promise<Result> => {
    shortage = told
    try {
      return await work()
    } finally {
      shortage = enough
    }
  }

  const close = async () => {
    for (const { identity } of await sandboxes.views.list(signal))
      await sandboxes.requests.remove(identity.sandbox, { force: true })
    await sandboxes.close()
    await backend.close()
    await store.close()
    rmSync(base, { recursive: true, force: true })
  }
  return { dataDir, installation, backend, sandboxes, lines, up, run, whileShort, memoryOf, close }
}

const isEndOf = (body: EventBody, prompt: string): boolean =>
  body.type === "prompt.state" &&
  body.prompt === prompt &&
  body.state !== "queued" &&
  body.state !== "running"
