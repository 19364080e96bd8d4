import { accessSync, constants } from "node:fs"
import { setTimeout as pause } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"
import { configHere, type HostOptions } from "./config/here.ts"
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

export interface FindOptions {
  readonly dataDir: string
  /** The configured token; without it, the one in the data directory is used. */
  readonly token?: string | undefined
}

/** Finds the server that runs on the configured data directory. */
export const findServer = async (options: HostOptions): Promise<FoundServer> =>
  await findRunning(configHere(options).config)

/** Finds the server that runs on a data directory. */
export const findRunning = async ({ dataDir, token }: FindOptions): Promise<FoundServer> => {
  const holder = readLockHolder(dataDir)
  if (holder?.url === undefined) throw notFound(dataDir, holder?.pid)
  return { url: holder.url, token: token ?? (await readToken(dataDir, holder.group)) }
}

export interface WaitOptions {
  /** Called once, when the wait is long enough for a person to notice. */
  readonly onWait?: () => void
  readonly signal?: AbortSignal
}

/** Like findRunning, but waits for a server that is starting. */
export const awaitRunning = async (
  options: FindOptions,
  { onWait, signal }: WaitOptions,
): Promise<FoundServer> => {
  const startedMs = performance.now()
  let isWaitTold = false
  for (;;) {
    try {
      return await findRunning(options)
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

const notFound = (dataDir: string, startingPid: number | undefined): BerthError => {
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
  return new BerthError("server.not_running", `no server runs on ${dataDir}`, {
    details: { dataDir },
  })
}
