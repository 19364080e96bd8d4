import { accessSync, constants, existsSync } from "node:fs"
import { setTimeout as pause } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"
import { configHere, type HostOptions } from "./config/here.ts"
import type { LoadedConfig } from "./config/load.ts"
import { readLockHolder } from "./lock-holder.ts"
import { readToken } from "./token.ts"

/** The address and the token of a data directory's server. */
export interface FoundServer {
  readonly url: string
  readonly token: string | undefined
}

/** A server that was started together with its client takes about a second to appear, on a busy machine. */
const APPEARS_WITHIN_MS = 3_000

/**
 * A server that has appeared answers soon; one whose database is being migrated, or whose disk is full, takes longer.
 */
const ANSWERS_WITHIN_MS = 60_000

const LOOK_AGAIN_MS = 50
const TELL_AFTER_MS = 1_000

/** The configuration that says where the server is. */
export type FindConfig = Pick<LoadedConfig, "config" | "systemDataDir">

/** Finds the server that runs on the configured data directory, or root's that is shared with a group of this user. */
export const findServer = async (options: HostOptions): Promise<FoundServer> =>
  await findRunning(configHere(options))

/** Finds the server of a configuration. */
export const findRunning = async ({ config, systemDataDir }: FindConfig): Promise<FoundServer> => {
  const { dataDir, token } = config
  const holder = readLockHolder(dataDir)
  if (holder?.url !== undefined)
    return { url: holder.url, token: token ?? (await readToken(dataDir, holder.group)) }
  const shared = systemDataDir === undefined ? undefined : await findShared(systemDataDir)
  // A user with a data directory of their own means their own server.
  if (shared !== undefined && !existsSync(dataDir)) return { ...shared, ...(token && { token }) }
  throw notFound(dataDir, holder?.pid, shared && systemDataDir)
}

/**
 * Finds the server on root's data directory if this user may use it. A note and a token that another user can have
 * written are not used, and nor is a server that is shared with nobody.
 */
const findShared = async (dataDir: string): Promise<FoundServer | undefined> => {
  try {
    const holder = readLockHolder(dataDir)
    if (holder?.url === undefined || holder.group === undefined) return undefined
    const token = await readToken(dataDir, holder.group)
    return token === undefined ? undefined : { url: holder.url, token }
  } catch (thrown) {
    if (thrown instanceof BerthError) return undefined
    throw thrown
  }
}

export interface WaitOptions {
  /** Called once, when the wait is long enough for a person to notice. */
  readonly onWait?: () => void
  readonly signal?: AbortSignal
}

/** Like findServer, but waits for a server that is starting. */
export const awaitRunning = async (
  config: FindConfig,
  { onWait, signal }: WaitOptions,
): Promise<FoundServer> => {
  const startedMs = performance.now()
  let isWaitTold = false
  for (;;) {
    try {
      return await findRunning(config)
    } catch (thrown) {
      const passedMs = performance.now() - startedMs
      if (!(thrown instanceof BerthError) || passedMs > longestWaitMs(thrown)) throw thrown
      if (!isWaitTold && passedMs > TELL_AFTER_MS) {
        isWaitTold = true
        onWait?.()
      }
      await pause(LOOK_AGAIN_MS, undefined, { ...(signal && { signal }) })
    }
  }
}

const longestWaitMs = ({ code }: BerthError): number => {
  if (code === "server.not_running") return APPEARS_WITHIN_MS
  return code === "server.starting" ? ANSWERS_WITHIN_MS : 0
}

const notFound = (
  dataDir: string,
  startingPid: number | undefined,
  shared: string | undefined,
): BerthError => {
  if (startingPid !== undefined) {
    const message = `the server with pid ${startingPid} on ${dataDir} does not answer yet`
    return new BerthError("server.starting", message, { details: { dataDir } })
  }
  try {
    accessSync(dataDir, constants.R_OK | constants.X_OK)
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "EACCES") {
      const message = `this user may not look into ${dataDir}`
      return new BerthError("server.unreachable", message, { details: { dataDir }, cause })
    }
  }
  const other = shared === undefined ? "" : `; one that you may use runs on ${shared}`
  return new BerthError("server.not_running", `no server runs on ${dataDir}${other}`, {
    details: { dataDir },
  })
}
