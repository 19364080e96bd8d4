import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { setTimeout as pause } from "node:timers/promises"
import { openBridge } from "@berth/bridge/bridge"
import type { SandboxId } from "@berth/protocol/ids"
import { findSharedDirectories } from "@berth/server/sandboxes/state/shared-directories"
import { findInside, type Inside, kill } from "./inside.ts"
import type { World } from "./world.ts"

/**
 * Something that may happen at any moment. When it resolves, the server runs again. It returns false if there was nothing to
 * strike, because the sandbox was not there yet or any more.
 */
export type Mishap = (
  world: World,
  sandbox: SandboxId | undefined,
  random: () => number,
) => Promise<boolean>

export const MISHAPS: Readonly<Record<string, Mishap>> = {
  "the server is killed": async (world) => {
    await world.restart()
    return true
  },
  "the server is killed twice": async (world, _, random) => {
    await world.restart()
    await pause(random() * 200)
    await world.restart()
    return true
  },
  "the server stands still": async (world, _, random) => {
    kill(world.pid(), "SIGSTOP")
    await pause(200 + random() * 1_500)
    return kill(world.pid(), "SIGCONT")
  },
  "the bridge is cut": async (world, sandbox) => sandbox !== undefined && cut(world, sandbox),
  "the supervisor is killed": async (_, sandbox) => kill(insideOf(sandbox)?.supervisor, "SIGKILL"),
  "the supervisor stands still": async (_, sandbox, random) => {
    const found = insideOf(sandbox)
    kill(found?.supervisor, "SIGSTOP")
    await pause(200 + random() * 1_000)
    return kill(found?.supervisor, "SIGCONT")
  },
  "the sandbox is killed": async (_, sandbox) => kill(insideOf(sandbox)?.first, "SIGKILL"),
  "the monitor of the sandbox is killed, then the sandbox": async (_, sandbox, random) => {
    const found = insideOf(sandbox)
    const isStruck = kill(found?.monitor, "SIGKILL")
    await pause(random() * 300)
    return kill(found?.first, "SIGKILL") && isStruck
  },
  "server and sandbox are killed": async (world, sandbox) => {
    await world.kill()
    const isStruck = kill(insideOf(sandbox)?.first, "SIGKILL")
    await world.start()
    return isStruck
  },
}

const insideOf = (sandbox: SandboxId | undefined): Inside | undefined =>
  sandbox && findInside(sandbox)

/**
 * Opens a connection that takes the place of the server's, and ends it. It repeats the last number that the server has
 * seen, so that no event is forgotten. Returns false if it did not come up, and cut nothing.
 */
const cut = async ({ dataDir }: World, sandbox: SandboxId): Promise<boolean> => {
  const shared = await findSharedDirectories(join(dataDir, "shared")).find(sandbox)
  const lastSeen = lastSeenOf(dataDir, sandbox)
  if (shared === undefined || lastSeen === undefined) return false
  const over = new AbortController()
  const { promise: isUp, resolve } = Promise.withResolvers<boolean>()
  const bridge = openBridge(
    {
      address: { path: shared.socket },
      token: shared.token,
      sandbox,
      lastSeen,
      onEvents: () => Promise.reject(new Error("it only cuts")),
      onState: ({ kind }) => {
        if (kind !== "connecting") resolve(kind === "up")
      },
    },
    over.signal,
  )
  const isCut = await isUp
  over.abort()
  await bridge.closed
  return isCut
}

const lastSeenOf = (dataDir: string, sandbox: SandboxId): number | undefined => {
  const database = new DatabaseSync(join(dataDir, "berth.db"), { readOnly: true })
  try {
    const row = database.prepare("SELECT last_seen FROM sandboxes WHERE id = ?").get(sandbox)
    return (row as { last_seen: number } | undefined)?.last_seen
  } finally {
    database.close()
  }
}
