import { BerthError } from "@berth/protocol/errors"

const FULL = new Set(["ENOSPC", "EDQUOT"])

/** Makes the typed error of a refusal of the file system. A BerthError stays as it is. */
export const ioError = (thrown: unknown, path: string): BerthError => {
  if (thrown instanceof BerthError) return thrown
  const { code, message } = thrown as NodeJS.ErrnoException
  return FULL.has(String(code)) ? diskFull(path, thrown) : refused(path, message, thrown)
}

/** Makes the typed error of a failed program: it has only its words, which the C locale fixes. */
export const programError = (program: string, path: string, stderr: string): BerthError => {
  const said = stderr.trim().slice(-2_000)
  if (/File name too long/.test(stderr)) return pathTooLong(path, program)
  return /No space left on device|Disk quota exceeded/.test(stderr)
    ? diskFull(path, said)
    : refused(path, `${program}: ${said}`, undefined)
}

const diskFull = (path: string, cause: unknown): BerthError =>
  new BerthError("layers.disk_full", `no space is left for ${path}`, { details: { path }, cause })

export const pathTooLong = (path: string, program: string): BerthError =>
  new BerthError(
    "layers.path_too_long",
    `${program} cannot go on: folders lie in each other deeper than a path can be long`,
    { details: { path } },
  )

const refused = (path: string, said: string, cause: unknown): BerthError =>
  new BerthError("layers.io", `${path}: ${said}`, { details: { path, said }, cause })

export const hasCode = (thrown: unknown, code: string): boolean =>
  (thrown as NodeJS.ErrnoException | undefined)?.code === code
