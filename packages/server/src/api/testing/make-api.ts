import { BerthError } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { onTestFinished } from "vitest"
import { createLogger } from "../../logging/logger.ts"
import { Secrets } from "../../logging/secrets.ts"
import { DEFAULT_LIMITS, type Limits } from "../limits.ts"
import { listen } from "../listen.ts"
import type { Facts } from "../routes/health.ts"
import { type ApiOptions, createApi } from "../server.ts"
import { stopApi } from "../stop.ts"

export const TOKEN = "right-token-0123456789"

export interface MakeOptions extends Partial<Pick<ApiOptions, "sandboxes" | "sessions">> {
  readonly level?: Parameters<typeof createLogger>[0]["level"]
  readonly facts?: Partial<Facts>
  readonly limits?: Partial<Limits>
}

const none = async () => {
  throw new BerthError("backend.unavailable", "no sandboxes here")
}

/** Makes an API, not yet listening, and a list of the lines that it logs. It is stopped after the test. */
export const makeApi = async ({
  level = "error",
  facts,
  limits,
  sandboxes = none,
  sessions = none,
}: MakeOptions = {}) => {
  const lines: string[] = []
  const destination = { write: (line: string) => void lines.push(line) }
  const api = createApi({
    log: await createLogger({ level, pretty: false, secrets: new Secrets(), destination }),
    token: TOKEN,
    facts: {
      version: "1.2.3",
      pid: 1,
      installationId: newId.installation(),
      dataDir: "/data",
      backend: "embedded",
      startedAt: new Date(),
      startedAtMs: 0,
      ...facts,
    },
    sandboxes,
    sessions,
    limits: { ...DEFAULT_LIMITS, ...limits },
  })
  onTestFinished(async () => {
    await stopApi(api, 0)
  })
  return { api, lines }
}

/** Makes an API that listens on loopback. */
export const serveApi = async (options: MakeOptions = {}) => {
  const made = await makeApi(options)
  return { ...made, url: await listen(made.api, { host: "127.0.0.1", port: 0 }) }
}
