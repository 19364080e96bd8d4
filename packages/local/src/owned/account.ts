import { readFileSync } from "node:fs"

/** The group of users that no account file lists. */
const NOGROUP = 65_534

/**
 * The group to run a program under for a user: the wanted one where the user is in it, else the user's first. A
 * directory's own group says nothing of its owner: in a directory with the set-group-id bit, everyone makes entries of
 * that group.
 */
export const groupFor = (uid: number, wanted: number): number => {
  const accounts = linesOf("/etc/passwd").filter(([, , id]) => id === String(uid))
  const names = accounts.map(([name]) => name)
  const groups = linesOf("/etc/group")
    .filter(([, , , members = ""]) => members.split(",").some((name) => names.includes(name)))
    .map(([, , id]) => Number(id))
  const own = [...accounts.map(([, , , id]) => Number(id)), ...groups]
  return own.includes(wanted) ? wanted : (own[0] ?? NOGROUP)
}

/** The home directory of a user's account; a nonexistent one if no account file lists the user. */
export const homeOf = (uid: number): string =>
  linesOf("/etc/passwd").find(([, , id]) => id === String(uid))?.[5] || "/nonexistent"

/** The id of the group of this name; undefined where the machine has none. */
export const groupNamed = (name: string): number | undefined => {
  const id = linesOf("/etc/group").find(([found]) => found === name)?.[2]
  return id === undefined ? undefined : Number(id)
}

const linesOf = (file: string): string[][] => {
  try {
    return readFileSync(file, "utf8")
      .split("\n")
      .map((line) => line.split(":"))
  } catch {
    return []
  }
}
