import { BerthError } from "@berth/protocol/errors"

const FULL = new Set(["ENOSPC", "EDQUOT"])

/** Makes the typed error of a failed file operation. A typed error stays as it is. */
export const toolboxError = (thrown: unknown, doing: string): unknown => {
  const { code, path, message } = thrown as NodeJS.ErrnoException
  if (thrown instanceof BerthError || code === undefined || !/^E[A-Z0-9]+$/.test(code))
    return thrown
  const details = { path, said: message }
  return FULL.has(code)
    ? new BerthError("toolbox.disk_full", `no space is left for ${doing}`, {
        details,
        cause: thrown,
      })
    : new BerthError("toolbox.io", `${doing} failed`, { details, cause: thrown })
}
