import { getSystemErrorMessage } from "node:util"
import { BerthError, type ErrorCode } from "@berth/protocol/errors"
import type { FilePath } from "@berth/protocol/files"

const CODES: Readonly<Record<string, ErrorCode>> = {
  ENOENT: "files.not_found",
  EEXIST: "files.exists",
  ENOTEMPTY: "files.exists",
  EISDIR: "files.wrong_kind",
  ENOTDIR: "files.wrong_kind",
  ELOOP: "files.wrong_kind",
  EACCES: "files.denied",
  EPERM: "files.denied",
  EROFS: "files.denied",
  ENOSPC: "files.disk_full",
  EDQUOT: "files.disk_full",
  EFBIG: "files.disk_full",
  ENAMETOOLONG: "input.invalid",
  EINVAL: "input.invalid",
}

/** Turns a system error into one that means something to the caller. */
export const failure = (thrown: unknown, what: string, path: FilePath): unknown => {
  const code = systemCode(thrown)
  if (thrown instanceof BerthError || code === undefined) return thrown
  const { errno = 0 } = thrown as NodeJS.ErrnoException
  const name = typeof path === "string" ? path : "what is named"
  const message = `cannot ${what} ${name}: ${getSystemErrorMessage(errno)}`
  return new BerthError(CODES[code] ?? "files.failed", message, {
    details: { path, code },
    cause: thrown,
  })
}

/** Does the work, and names the act and the path if it fails. */
export const attempt = async <T>(
  what: string,
  path: FilePath,
  work: () => Promise<T>,
): Promise<T> => {
  try {
    return await work()
  } catch (thrown) {
    throw failure(thrown, what, path)
  }
}

/** The code of a system error, such as ENOENT. */
export const systemCode = (thrown: unknown): string | undefined => {
  const { code, syscall } = (thrown ?? {}) as NodeJS.ErrnoException
  return typeof code === "string" && syscall !== undefined ? code : undefined
}

export const wrongKind = (path: FilePath, is: string, needed: string): BerthError =>
  new BerthError("files.wrong_kind", `there is a ${is}, and a ${needed} is needed`, {
    details: { path, is, needed },
  })
