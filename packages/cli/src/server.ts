import { BerthError } from "@berth/protocol/errors"
import type { SandboxView } from "@berth/protocol/sandboxes"
import type { Client } from "@berth/sdk/client"
import type { Sandbox } from "@berth/sdk/sandboxes"
import { hostFlags } from "./config-flags.ts"
import { loadHost } from "./host.ts"

/** The server that runs on the configured data directory. */
export const connect = async (options: Readonly<Record<string, unknown>>): Promise<Client> => {
  const [{ findServer }, { createClient }, { WebSocket }] = await Promise.all([
    loadHost(),
    import("@berth/sdk/client"),
    // Node's own cannot be paused: what a slow reader does not take would fill the memory.
    import("ws"),
  ])
  const { url, token } = await findServer(hostFlags(options))
  return createClient({
    ...{ url, token, WebSocket: WebSocket as unknown as typeof globalThis.WebSocket },
  })
}

/**
 * The one sandbox that is called so: by its id, the beginning of it, or its workspace. Where several are, those
 * that are meant: without a word on that, those that are not quarantined.
 */
export const findSandbox = async (
  client: Client,
  name: string,
  isMeant: (view: SandboxView) => boolean = ({ phase }) => phase !== "quarantined",
): Promise<Sandbox> => {
  if (/^sb-[0-9a-z]{20}$/.test(name)) return client.sandboxes.at(name)
  const all = (await client.sandboxes.list()).filter(({ identity: { sandbox, workspace } }) => {
    return workspace === name || (name.startsWith("sb-") && sandbox.startsWith(name))
  })
  const meant = all.filter(isMeant)
  const called = meant.length > 0 ? meant : all
  const [only] = called
  if (only === undefined) throw new BerthError("not_found", `there is no sandbox ${name}`)
  if (called.length === 1) return client.sandboxes.at(only.identity.sandbox)
  const ids = called.map(({ identity }: SandboxView) => identity.sandbox).join(", ")
  throw new BerthError("input.usage", `${name} can be any of ${ids}`)
}
