import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { createServer, type ServerResponse } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Writable } from "node:stream"
import { describe, expect, it, onTestFinished } from "vitest"
import { NO_KEYS } from "./keys/keys.ts"
import { createLogger } from "./logging/logger.ts"
import { Secrets } from "./logging/secrets.ts"
import { DEFAULT_POLICY } from "./sandboxes/deciding/policy.ts"
import { startSandboxes } from "./start-sandboxes.ts"
import { openStore } from "./store/open.ts"

/** Starts a server's sandboxes on an engine that answers each request in this way. */
const startOn = async (answer: (reply: ServerResponse) => void) => {
  const dataDir = await mkdtemp(join(tmpdir(), "berth-start-"))
  onTestFinished(() => rm(dataDir, { recursive: true }))
  const socketPath = join(dataDir, "engine.sock")
  let asked = 0
  const engine = createServer((_, reply) => {
    asked += 1
    answer(reply)
  })
  engine.listen(socketPath)
  await once(engine, "listening")
  onTestFinished(() => {
    engine.closeAllConnections()
    engine.close()
  })
  const secrets = new Secrets()
  const destination = new Writable({ write: (_, __, done) => done() })
  const log = await createLogger({ level: "info", pretty: false, secrets, destination })
  const store = await openStore({ dataDir })
  const started = startSandboxes({
    log,
    secrets,
    dataDir,
    store,
    installation: store.installationId,
    backend: { name: "docker", engine: { socketPath }, image: "none" },
    environment: {},
    keys: NO_KEYS,
    keepEventsMs: null,
    sessionKeepMs: 0,
    policy: DEFAULT_POLICY,
    toolbox: () => async () => {
      throw new Error("no sandbox is made here")
    },
  })
  onTestFinished(async () => {
    await started.stop()
    await store.close()
  })
  return { started, asked: () => asked }
}

describe("a backend that cannot be opened", () => {
  it("is tried again after a failure that may pass", async () => {
    const { started, asked } = await startOn((reply) => reply.writeHead(500).end())
    await expect(started.opened).rejects.toMatchObject({
      code: "backend.engine_failed",
      retry: "later",
    })
    await expect.poll(asked, { timeout: 10_000 }).toBeGreaterThan(1)
  })
})
