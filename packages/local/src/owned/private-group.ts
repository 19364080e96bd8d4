import { readFileSync } from "node:fs"

/**
 * Whether a group is the user's own: it is the user's first one, and no other account is in it. Distributions that give each
 * user such a group let it write by default (umask 002). A group that the two files do not list counts as shared.
 */
export const isPrivateGroup = (gid: number, uid: number): boolean =>
  isPrivate({ gid, uid, passwd: read("/etc/passwd"), group: read("/etc/group") })

interface Accounts {
  readonly gid: number
  readonly uid: number
  /** The text of /etc/passwd. */
  readonly passwd: string
  /** The text of /etc/group. */
  readonly group: string
}

export const isPrivate = ({ gid, uid, passwd, group }: Accounts): boolean => {
  const accounts = linesOf(passwd).map(([name, , id, primary]) => ({ name, id, primary }))
  const names = accounts.filter(({ id }) => id === String(uid)).map(({ name }) => name)
  const groups = linesOf(group).filter(([, , id]) => id === String(gid))
  if (names.length === 0 || groups.length === 0) return false
  const first = accounts.filter(({ primary }) => primary === String(gid)).map(({ name }) => name)
  const further = groups.flatMap(([, , , list = ""]) => list.split(",")).filter((name) => name)
  if (!first.some((name) => names.includes(name))) return false
  return [...first, ...further].every((name) => names.includes(name))
}

const linesOf = (text: string): string[][] => text.split("\n").map((line) => line.split(":"))

const read = (file: string): string => {
  try {
    return readFileSync(file, "utf8")
  } catch {
    return ""
  }
}
