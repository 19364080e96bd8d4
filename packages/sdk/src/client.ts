import { Health, ServerStatus } from "@berth/protocol/health"
import { ReconcileReport } from "@berth/protocol/sandboxes"
import { call as ask, type CallOptions, type Connection, get, type ServerAddress } from "./call.ts"
import { type Sandboxes, sandboxesOf } from "./sandboxes.ts"
import { type Sessions, sessionsOf } from "./sessions.ts"
import { type Workspaces, workspacesOf } from "./workspaces.ts"

export interface ClientOptions extends CommonOptions {
  /** The address of the server: `http://127.0.0.1:7766` */
  readonly url: string
  /** The API token; health needs none. */
  readonly token?: string | undefined
}

/** Options that do not depend on where the server is. */
export interface CommonOptions {
  /** The longest that a call may take unless it says otherwise. */
  readonly deadlineMs?: number
  readonly fetch?: typeof globalThis.fetch
  /**
   * The WebSocket class. One that can be paused (as that of the package `ws`) holds back data that comes faster than it
   * is read.
   */
  readonly WebSocket?: typeof globalThis.WebSocket
}

/** A client of a Berth server. Every call fails with a BerthError and nothing else. */
export interface Client {
  health(options?: CallOptions): Promise<Health>
  status(options?: CallOptions): Promise<ServerStatus>
  readonly sandboxes: Sandboxes
  readonly sessions: Sessions
  readonly workspaces: Workspaces
  /** Compares what is wanted with what runs, and executes the next actions; with `dryRun`, only reports them. */
  reconcile(options?: ReconcileOptions): Promise<ReconcileReport>
}

export interface ReconcileOptions extends CallOptions {
  /** Reports what would be done, and does nothing. */
  readonly dryRun?: boolean
}

/** A server on this machine answers in milliseconds; one that takes this long is stuck. */
const DEFAULT_DEADLINE_MS = 10_000

/** Sandboxes that are stopped have their grace period, and there may be many of them. */
const RECONCILE_DEADLINE_MS = 300_000

export const createClient = ({ url, token, ...options }: ClientOptions): Client =>
  clientOf({ url, find: async () => ({ url, token }) }, options)

/** A server that is looked for before each call; `url` is its presumed address until it is found. */
export type SoughtServer = Pick<Connection, "url" | "find">

export const clientOf = (server: SoughtServer, options: CommonOptions = {}): Client => {
  let last: Pick<ServerAddress, "url"> = server
  const connection: Connection = {
    get url() {
      return last.url
    },
    find: async (signal) => {
      const found = await server.find(signal)
      last = found
      return found
    },
    deadlineMs: options.deadlineMs ?? DEFAULT_DEADLINE_MS,
    // Browsers require that fetch is called without an owner.
    fetch: options.fetch ?? ((...args) => globalThis.fetch(...args)),
    WebSocket: options.WebSocket ?? globalThis.WebSocket,
  }
  return {
    health: (call) => get(connection, "/v1/health", Health, call),
    status: (call) => get(connection, "/v1/status", ServerStatus, call),
    sandboxes: sandboxesOf(connection),
    sessions: sessionsOf(connection),
    workspaces: workspacesOf(connection),
    reconcile: ({ dryRun = false, ...call } = {}) => {
      const wanted = { method: "POST", path: "/v1/reconcile", json: { dryRun } } as const
      const deadline = { deadlineMs: RECONCILE_DEADLINE_MS, ...call }
      return ask(connection, wanted, ReconcileReport, deadline)
    },
  }
}
