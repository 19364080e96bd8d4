import { BerthError } from "@berth/protocol/errors"
import { describeAddress, type EngineAddress } from "./address.ts"
import type { Request } from "./connection.ts"

/** Error codes of node when nobody listens (DOWN), or access is denied (FORBIDDEN). */
const DOWN = new Set(["ENOENT", "ECONNREFUSED", "ENOTFOUND", "EHOSTUNREACH", "ENETUNREACH"])
const FORBIDDEN = new Set(["EACCES", "EPERM"])

/** Makes the typed error for a request that got no whole answer. */
export const unanswered = (thrown: unknown, address: EngineAddress, request: Request) => {
  if (thrown instanceof BerthError) return thrown
  const { code = "", message } = thrown as NodeJS.ErrnoException
  const details = { engine: describeAddress(address), asked: asked(request), engineSaid: message }
  if (FORBIDDEN.has(code)) {
    return new BerthError("backend.forbidden", "the server may not use the engine's socket", {
      details,
      cause: thrown,
    })
  }
  if (DOWN.has(code)) {
    return new BerthError("backend.unavailable", "the engine does not run, or listens elsewhere", {
      details: { ...details, reason: "not-running" },
      cause: thrown,
    })
  }
  return new BerthError("backend.engine_failed", "the engine broke off its answer", {
    details: { ...details, reason: "broken-off" },
    cause: thrown,
  })
}

/** Makes the typed error for an image that the engine does not have. */
export const imageMissing = (digest: string, engineSaid: string): BerthError =>
  new BerthError("backend.image_unavailable", `the engine has no image ${digest}`, {
    details: { path: "system.digest", image: digest, engineSaid },
  })

/** Makes the typed error for a configuration that the engine calls invalid. */
export const invalid = (request: Request, engineSaid: string): BerthError =>
  new BerthError("input.invalid", `the engine does not take this: ${engineSaid}`, {
    details: { path: "config", asked: asked(request), engineSaid },
  })

/** Makes the typed error for an answer with an unexpected status. */
export const refused = (request: Request, status: number, engineSaid: string): BerthError =>
  new BerthError("backend.engine_failed", `the engine refused: ${engineSaid}`, {
    details: { asked: asked(request), status, engineSaid },
  })

/** Makes the typed error for an answer that is not what the engine's API promises. */
export const garbled = (request: Request, why: string, cause?: unknown): BerthError =>
  new BerthError("backend.engine_failed", "the engine's answer cannot be understood", {
    details: { asked: asked(request), reason: "garbled", engineSaid: why },
    cause,
  })

const asked = ({ method, path }: Request): string => `${method} ${path}`

/** Makes a typed error of anything that failed on the way. A typed error stays as it is. */
export const asBackendError = (thrown: unknown, doing: string): BerthError => {
  if (thrown instanceof BerthError) return thrown
  const { code, path, message } = thrown as NodeJS.ErrnoException
  const full = code === "ENOSPC" || code === "EDQUOT"
  return new BerthError(
    full ? "backend.disk_full" : "backend.engine_failed",
    full ? `no space left while ${doing}` : `${doing} failed`,
    { details: { path, engineSaid: message }, cause: thrown },
  )
}
