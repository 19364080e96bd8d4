import { createInterface } from "node:readline"
import { listen } from "@berth/server/api/listen"
import { createApi } from "@berth/server/api/server"
import { NO_KEYS } from "@berth/server/keys/keys"
import { createLogger, standardError } from "@berth/server/logging/logger"
import { Secrets } from "@berth/server/logging/secrets"
import { DEFAULT_POLICY } from "@berth/server/sandboxes/deciding/policy"
import { startSandboxes } from "@berth/server/start-sandboxes"
import { openStore } from "@berth/server/store/open"
import { type ChildSettings, TOKEN } from "./settings.ts"

/*
 * A server that ends itself, as SIGKILL does, at the fail point that a line of its standard input names. Its first line
 * of output is its URL.
 */

const settings = JSON.parse(process.argv[2] ?? "") as ChildSettings
const { dataDir, toolbox, backend, port, policy } = settings
let dieAt: string | undefined
createInterface({ input: process.stdin }).on("line", (line) => {
  dieAt = line
})
// The process that started this one is gone.
process.stdin.on("end", () => process.exit(1))

const secrets = new Secrets()
const log = await createLogger({
  level: "info",
  pretty: false,
  secrets,
  destination: standardError(),
})
const store = await openStore({ dataDir })
const started = startSandboxes({
  log,
  secrets,
  dataDir,
  store,
  backend,
  installation: store.installationId,
  environment: process.env,
  keys: NO_KEYS,
  keepEventsMs: null,
  sessionKeepMs: 1_000,
  toolbox: () => async () => toolbox,
  policy: { ...DEFAULT_POLICY, pauseAfterMs: null, stopAfterMs: null, ...policy },
  at: (step) => {
    if (step === dieAt) process.kill(process.pid, "SIGKILL")
  },
})
const api = createApi({
  log,
  token: TOKEN,
  sandboxes: async () => (await started.opened).sandboxes,
  sessions: async () => (await started.opened).sessions,
  facts: {
    version: "0.0.0",
    pid: process.pid,
    installationId: store.installationId,
    dataDir,
    backend: backend.name,
    startedAt: new Date(),
    startedAtMs: performance.now(),
  },
})
process.stdout.write(`${await listen(api, { host: "127.0.0.1", port })}\n`)
