import { closeSync, fstatSync, openSync, readFileSync } from "node:fs"
import { BerthError } from "@berth/protocol/errors"

/** The start of the header that every request must have: `Authorization: Bearer …`. */
const SCHEME = "Bearer "

const TOKEN = /^[\x21-\x7e]{32,512}$/
const READABLE_BY_OTHERS = 0o077

/** Reads the token of this sandbox, from a file that only the supervisor's own user can read. */
export const readToken = (path: string): string => {
  const { text, mode } = read(path)
  const token = text.trim()
  if ((mode & READABLE_BY_OTHERS) !== 0) throw unusable(path, "others may read it")
  if (!TOKEN.test(token)) throw unusable(path, "it is not a token")
  return token
}

const read = (path: string): { text: string; mode: number } => {
  try {
    const descriptor = openSync(path, "r")
    try {
      const status = fstatSync(descriptor)
      if (!status.isFile()) throw unusable(path, "it is not a file")
      return { text: readFileSync(descriptor, "utf8"), mode: status.mode }
    } finally {
      closeSync(descriptor)
    }
  } catch (thrown) {
    if (thrown instanceof BerthError) throw thrown
    throw unusable(path, thrown instanceof Error ? thrown.message : String(thrown), thrown)
  }
}

const unusable = (path: string, reason: string, cause?: unknown): BerthError =>
  new BerthError("bridge.token_unusable", `the token ${path} cannot be used: ${reason}`, {
    details: { path, reason },
    cause,
  })

/** Returns a check of the authorization header. Its duration depends on the header's length alone. */
export const tokenGuard = (token: string): ((authorization: string | undefined) => boolean) => {
  const wanted = Buffer.from(SCHEME + token)
  return (authorization) => {
    const given = Buffer.from(authorization ?? "")
    // Compared by hand, because node:crypto takes longer to load than all else on the way to the first answer.
    let difference = given.length ^ wanted.length
    for (let place = 0; place < given.length; place++)
      difference |= (given[place] ?? 0) ^ (wanted[place % wanted.length] ?? 0)
    return difference === 0
  }
}
