import { randomBytes } from "node:crypto"
import { open, rename, rm } from "node:fs/promises"
import { join, resolve } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import { ApiToken } from "./config/schema.ts"
import { type OwnedText, readOwned } from "./owned/read.ts"
import { shareFile } from "./owned/share.ts"

const TOKEN_BYTES = 32
const ONLY_OWNER = 0o600
const ALL_OTHERS = 0o077
const ALL_BUT_GROUP_READ = 0o037

/** The token in the data directory, made at first start. Only the holder of the directory's lock may call it. */
export const ensureToken = async (dataDir: string, group?: number): Promise<string> => {
  const token = (await readToken(dataDir, group)) ?? (await makeToken(dataDir))
  shareFile(tokenPath(dataDir), group)
  return token
}

/** The token in the data directory; undefined when no server has made one yet. */
export const readToken = async (dataDir: string, group?: number): Promise<string | undefined> => {
  const path = tokenPath(dataDir)
  const content = readPrivate(path, group)
  if (content === undefined) return undefined
  const token = ApiToken.safeParse(content.trim())
  if (!token.success) throw unusable(path, "it does not hold a token")
  return token.data
}

export const tokenPath = (dataDir: string): string => join(resolve(dataDir), "token")

/** Reads a file that nobody else has put in place of ours, and that nobody else can read but the group it is shared with. */
const readPrivate = (path: string, group: number | undefined): string | undefined => {
  try {
    const file = readOwned(path, { followLast: false })
    if (file === undefined) return undefined
    if (isOpenToOthers(file, group)) throw unusable(path, "other users may read or write it")
    return file.text
  } catch (cause) {
    if (cause instanceof BerthError) throw cause
    const { code } = cause as NodeJS.ErrnoException
    throw unusable(path, code === "ELOOP" ? "it is a link" : `it cannot be read (${code})`, cause)
  }
}

/** A member of the group reads a file of root's; to its owner, a group that it is not shared with is others. */
const isOpenToOthers = ({ uid, gid, mode }: OwnedText, group: number | undefined): boolean => {
  const isShared = process.geteuid?.() === uid ? gid === group : true
  return (mode & (isShared ? ALL_BUT_GROUP_READ : ALL_OTHERS)) !== 0
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
