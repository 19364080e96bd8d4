import { BerthError } from "@berth/protocol/errors"
import { SessionId } from "@berth/protocol/ids"
import type { Client } from "@berth/sdk/client"
import type { NamedOptions, Sandbox } from "@berth/sdk/sandboxes"
import type { Session } from "@berth/sdk/sessions"
import { hostFlags } from "./config-flags.ts"

/** Connects to the server that runs on the configured data directory, or that is just starting there. */
export const connect = async (
  options: Readonly<Record<string, unknown>>,
  find: FindServer = findOrAwait,
): Promise<Client> => {
  const [{ url, token }, { createClient }, { nodeFetch }, { WebSocket }] = await Promise.all([
    find(options),
    import("@berth/sdk/client"),
    import("@berth/sdk/node-fetch"),
    // Node's own WebSocket cannot be paused: data for a slow reader would fill the memory.
    import("ws"),
  ])
  return createClient({
    url,
    token,
    fetch: nodeFetch,
    WebSocket: WebSocket as unknown as typeof globalThis.WebSocket,
  })
}

/** Connects like `connect`, for a program that may outlive the server: a restarted server may answer elsewhere. */
export const connectForLong = async (
  options: Readonly<Record<string, unknown>>,
): Promise<Client> => {
  const [{ url }, { findServer }, { clientOf }] = await Promise.all([
    findOrAwait(options),
    import("@berth/local/find-server"),
    import("@berth/sdk/client"),
  ])
  return clientOf({ url, find: () => findServer(hostFlags(options)) })
}

type FindServer = (
  options: Readonly<Record<string, unknown>>,
) => Promise<{ readonly url: string; readonly token: string | undefined }>

/** Finds a server that answers already. */
export const findRunning: FindServer = async (options) => {
  const { findServer } = await import("@berth/local/find-server")
  return await findServer(hostFlags(options))
}

const findOrAwait: FindServer = async (options) => {
  const [{ awaitRunning }, { configHere }] = await Promise.all([
    import("@berth/local/find-server"),
    import("@berth/local/config/here"),
  ])
  return await awaitRunning(configHere(hostFlags(options)), {
    onWait: () => process.stderr.write("waiting for a server to start\n"),
  })
}

/**
 * The sandbox of that name: an id, the beginning of an id, or a workspace. Tells the person if the id is of an earlier
 * sandbox of its workspace.
 */
export const findSandbox = async (
  client: Client,
  name: string,
  say: (line: string) => void,
  options: NamedOptions = {},
): Promise<Sandbox> => {
  const { sandbox, earlier } = await client.sandboxes.named(name, options)
  if (earlier !== undefined) say(`${earlier} is now ${sandbox}\n`)
  return client.sandboxes.at(sandbox)
}

/** The session of that name: an id, the beginning of an id, or a workspace, whose latest session it is. */
export const findSession = async (client: Client, name: string): Promise<Session> => {
  if (SessionId.safeParse(name).success) return client.sessions.at(name)
  const all = await client.sessions.list()
  const begin = all.filter(({ id }) => name.startsWith("ses-") && id.startsWith(name))
  if (begin.length > 1) {
    const ids = begin.map(({ id }) => id).join(", ")
    throw new BerthError("input.usage", `${name} can be any of ${ids}`)
  }
  const found = begin[0] ?? all.find(({ workspace }) => workspace === name)
  if (found === undefined) throw new BerthError("session.unknown", `there is no session ${name}`)
  return client.sessions.at(found.id)
}
