import { configHere } from "@berth/local/config/here"
import { awaitRunning } from "@berth/local/find-server"
import {
  type Client,
  type ClientOptions,
  type CommonOptions,
  clientOf,
  createClient as createClientAt,
} from "./client.ts"
import { nodeFetch } from "./node-fetch.ts"

/*
 * The package as Node loads it. In browsers it is `client.ts`, which cannot look for a server.
 */

export type { Client, ClientOptions, CommonOptions, ReconcileOptions } from "./client.ts"

/**
 * Creates a client. Without a URL, it is one of this machine's server, which is found as the command `berth` finds it;
 * a starting server is waited for.
 */
export const createClient = (options: ClientOptions | CommonOptions = {}): Client => {
  const onNode = { fetch: nodeFetch, ...options }
  return "url" in onNode ? createClientAt(onNode) : createLocalClient(onNode)
}

const createLocalClient = (options: CommonOptions): Client => {
  const loaded = configHere({ flags: {} })
  const find = (signal: AbortSignal) => awaitRunning(loaded, { signal })
  return clientOf({ url: loaded.config.dataDir, find }, options)
}
