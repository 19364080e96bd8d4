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
const GROUP_READ = 0o040
const ALL_BUT_GROUP_READ = 0o037

export interface TokenOptions {
  /** Members of this group may read the token. */
  readonly group?: number | undefined
  /** Called with the group whose members knew the token that was replaced. */
  readonly onReplaced?: (group: number) => void
}

/**
 * The token in the data directory, made at first start, and anew when it is no longer shared with the group that could
 * read it. Only the holder of the directory's lock may call this.
 */
export const ensureToken = async (
  dataDir: string,
  { group, onReplaced = () => {} }: TokenOptions = {},
): Promise<string> => {
  const path = tokenPath(dataDir)
  const earlier = earlierGroup(readFile(path), group)
  const known = earlier === undefined ? await readToken(dataDir, group) : undefined
  const token = known ?? (await makeToken(dataDir))
  if (earlier !== undefined) onReplaced(earlier)
  shareFile(path, group)
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

/**
 * Reads a file that nobody else can have put in its place, and that nobody but the group it is shared with can read.
 */
const readPrivate = (path: string, group: number | undefined): string | undefined => {
  const file = readFile(path)
  if (file === undefined) return undefined
  if (isOpenToOthers(file, group)) throw unusable(path, "other users may read or write it")
  return file.text
}

const readFile = (path: string): OwnedText | undefined => {
  try {
    return readOwned(path, { followLast: false })
  } catch (cause) {
    if (cause instanceof BerthError) throw cause
    const { code } = cause as NodeJS.ErrnoException
    throw unusable(path, code === "ELOOP" ? "it is a link" : `it cannot be read (${code})`, cause)
  }
}

/**
 * Whether others may read the token. Members of the group read a file of root's; for its owner, a group that it is not
 * shared with counts as others.
 */
const isOpenToOthers = ({ uid, gid, mode }: OwnedText, group: number | undefined): boolean => {
  const isShared = process.geteuid?.() === uid ? gid === group : true
  return (mode & (isShared ? ALL_BUT_GROUP_READ : ALL_OTHERS)) !== 0
}

/** The group that the token file is shared with, as `shareFile` does it, if that is another than this one. */
const earlierGroup = (
  file: OwnedText | undefined,
  group: number | undefined,
): number | undefined => {
  if (file === undefined || file.uid !== process.geteuid?.() || file.gid === group) return undefined
  return (file.mode & ALL_OTHERS) === GROUP_READ ? file.gid : undefined
}

/**
 * Makes a token. It is written under another name and renamed, so that a crash leaves no half token; synced, since
 * clients keep it.
 */
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
