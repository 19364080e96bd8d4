import { randomBytes } from "node:crypto"
import { open, rename, rm } from "node:fs/promises"
import { join, resolve } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { ApiToken } from "../config/schema.ts"
import { readOwned } from "../owned/read.ts"

const TOKEN_BYTES = 32
const ONLY_OWNER = 0o600

/** The token in the data directory, made at first start. Only the holder of the directory's lock may call it. */
export const ensureToken = async (dataDir: string): Promise<string> =>
  (await readToken(dataDir)) ?? (await makeToken(dataDir))

/** The token in the data directory; undefined when no server has made one yet. */
export const readToken = async (dataDir: string): Promise<string | undefined> => {
  const path = tokenPath(dataDir)
  const content = readPrivate(path)
  if (content === undefined) return undefined
  const token = ApiToken.safeParse(content.trim())
  if (!token.success) throw unusable(path, "it does not hold a token")
  return token.data
}

export const tokenPath = (dataDir: string): string => join(resolve(dataDir), "token")

/** Reads a file that nobody else can read or has put in place of ours. */
const readPrivate = (path: string): string | undefined => {
  try {
    const file = readOwned(path, { followLast: false })
    if (file === undefined) return undefined
    if ((file.mode & 0o077) !== 0) throw unusable(path, "other users may read or write it")
    return file.text
  } catch (cause) {
    if (cause instanceof BerthError) throw cause
    const { code } = cause as NodeJS.ErrnoException
    throw unusable(path, code === "ELOOP" ? "it is a link" : `it cannot be read (${code})`, cause)
  }
}

/** Written aside and renamed, so that a crash leaves no half token; synced, since clients keep it. */
const makeToken = async (dataDir: string): Promise<string> => {
  const path = tokenPath(dataDir)
  const draft = `${path}.new`
  const token = randomBytes(TOKEN_BYTES).toString("base64url")
  try {
    await rm(draft, { force: true })
    {
      await using file = await open(draft, "wx", ONLY_OWNER)
      await file.writeFile(`${token}\n`)
      await file.sync()
    }
    await rename(draft, path)
    return token
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw unusable(path, `it cannot be written (${code})`, cause)
  }
}

const unusable = (path: string, why: string, cause?: unknown): BerthError =>
  new BerthError("server.token_unusable", `the token file cannot be used: ${why}`, {
    details: { path },
    cause,
  })
