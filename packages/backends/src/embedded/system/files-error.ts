import { BerthError } from "@berth/protocol/errors"

/** Makes the typed error of a failed file operation. A typed error stays as it is. */
export const asBackendError = (thrown: unknown, doing: string): BerthError => {
  if (thrown instanceof BerthError) return thrown
  const { code, path, message } = thrown as NodeJS.ErrnoException
  const details = { path, engineSaid: message }
  if (code === "ENOSPC" || code === "EDQUOT") {
    return new BerthError("backend.disk_full", `no space left while ${doing}`, {
      details,
      cause: thrown,
    })
  }
  return new BerthError("backend.engine_failed", `${doing} failed`, { details, cause: thrown })
}
