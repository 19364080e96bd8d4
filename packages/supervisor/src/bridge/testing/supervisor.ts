import { request } from "node:http"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import type { BerthError } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { onTestFinished } from "vitest"
import { WebSocket } from "ws"
import { type Journal, type JournalOptions, openJournal } from "../../journal/journal.ts"
import { openLedger } from "../../journal/ledger.ts"
import { temporaryDirectory } from "../../journal/testing/events.ts"
import type { ConnectionParts } from "../connection.ts"
import { Inside, type InsideParts } from "../inside.ts"
import { openPrompts, type RunPrompt } from "../prompts.ts"
import { type BridgeServerOptions, serveBridge } from "../serve.ts"
import { Upgrades } from "../upgrades.ts"

export const TOKEN = "a-token-for-tests-0123456789abcdefghijkl"
export const AUTHORIZED = { authorization: `Bearer ${TOKEN}` }

interface Parts
  extends Partial<BridgeServerOptions>,
    Partial<Pick<ConnectionParts, "journal" | "prompts" | "helloDeadlineMs" | "silenceLimitMs">>,
    Omit<InsideParts, "upgrades"> {
  readonly run?: RunPrompt
  readonly journalOptions?: Partial<JournalOptions>
}

/** Starts a bridge server with a journal and prompts of its own, removed after the test. */
export const serve = async ({
  run,
  journalOptions,
  hostRequests,
  features,
  ...options
}: Parts = {}) => {
  options.inside?.catch(() => {})
  options.journal?.catch(() => {})
  options.prompts?.catch(() => {})
  const directory = temporaryDirectory()
  const path = join(directory, "socket")
  const journal = await openJournal({ directory: join(directory, "journal"), ...journalOptions })
  const ledger = await openLedger(join(directory, "ledger"))
  const prompts = await openPrompts({
    journal,
    ledger,
    run: run ?? (async () => ({ state: "succeeded" })),
  })
  const sandbox = newId.sandbox()
  const faults: string[] = []
  const parts = {
    sandbox,
    journal: Promise.resolve(journal),
    prompts: Promise.resolve(prompts),
    hostRequests,
    onFault: ({ code }: BerthError) => faults.push(code),
    ...options,
  }
  const whole = new Inside({ upgrades: new Upgrades(parts), hostRequests, features })
  const server = await serveBridge({
    listen: [{ path }],
    token: TOKEN,
    health: () => ({ ready: false, prompts: prompts.count }),
    boot: () => ({ steps: [] }),
    inside: Promise.resolve(whole),
    ...parts,
  })
  onTestFinished(async () => {
    await server.close()
    await prompts.close()
    await journal.close()
    await ledger.close()
  })
  return { path, directory, journal, prompts, sandbox, server, whole, faults }
}

export const get = (
  socketPath: string,
  path: string,
  {
    headers = AUTHORIZED,
    method = "GET",
  }: { headers?: Record<string, string>; method?: string } = {},
) =>
  new Promise<{ status: number | undefined; body: string }>((resolve, reject) => {
    const sent = request({ socketPath, path, headers, method, agent: false })
    sent.on("error", reject)
    sent.on("response", (response) => {
      text(response).then((body) => resolve({ status: response.statusCode, body }), reject)
    })
    sent.end()
  })

/** A minimal client in the server's role. */
export const connect = (path: string, headers: Record<string, string> = AUTHORIZED) => {
  const websocket = new WebSocket(`ws+unix://${path}:/bridge`, { headers })
  const received: Record<string, unknown>[] = []
  const arrivals: (() => void)[] = []
  const closed = Promise.withResolvers<{ code: number; reason: string }>()
  const opened = Promise.withResolvers<void>()
  opened.promise.catch(() => {})
  websocket.on("open", opened.resolve)
  websocket.on("error", opened.reject)
  websocket.on("message", (data) => {
    received.push(JSON.parse(String(data)))
    for (const wake of arrivals.splice(0)) wake()
  })
  websocket.on("close", (code, reason) => closed.resolve({ code, reason: String(reason) }))
  onTestFinished(() => websocket.terminate())
  const say = (message: unknown) =>
    websocket.send(typeof message === "string" ? message : JSON.stringify(message))
  const until = async (isDone: () => boolean) => {
    while (!isDone()) await new Promise<void>((resolve) => arrivals.push(resolve))
  }
  const numbers = () =>
    received
      .flatMap(({ events }) => (Array.isArray(events) ? events : []))
      .map(({ sequence }: { sequence: number }) => sequence)
  return {
    websocket,
    received,
    opened: opened.promise,
    closed: closed.promise,
    say,
    until,
    numbers,
  }
}

export const helloTo = (sandbox: string, lastSeen = 0, generation = 1) => ({
  type: "hello",
  generation,
  sandbox,
  lastSeen,
})

export const appendMany = (journal: Journal, count: number) =>
  Promise.all(
    Array.from({ length: count }, () => journal.append({ type: "warning", message: "x" })),
  )
