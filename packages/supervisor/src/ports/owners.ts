import { readdirSync, readFileSync, readlinkSync } from "node:fs"
import type { Clock } from "../processes/clock.ts"
import { becomingUser, OWN_PROGRAM_FLAGS } from "../processes/own-program.ts"
import { runCommand } from "../processes/run.ts"
import type { User } from "../processes/user.ts"

export interface Owner {
  readonly pid: number
  readonly name: string
}

/** Time limit of the helper: node starts and reads some links, on a busy machine. */
const HELPER_DEADLINE_MS = 2_000

export interface OwnersParts {
  readonly clock: Clock
  readonly user: User | undefined
  readonly signal: AbortSignal
}

/**
 * Finds the processes that have these sockets open. The kernel shows a process's descriptors to its own user and to
 * processes that may trace it. A supervisor that may not trace asks through a helper that runs as the user.
 */
export const findOwners = async (
  inodes: ReadonlySet<string>,
  { clock, user, signal }: OwnersParts,
): Promise<ReadonlyMap<string, Owner>> => {
  if (inodes.size === 0) return new Map()
  const { owners, isHidden } = look(inodes)
  const rest = [...inodes].filter((inode) => !owners.has(inode))
  if (rest.length === 0 || !isHidden || user === undefined) return owners
  const { stdout } = await runCommand(
    {
      title: "looking for who listens",
      command: [process.execPath, ...OWN_PROGRAM_FLAGS, "-e", becomingUser(user, HELPER)],
      env: {},
      cwd: "/",
      user,
      becomesUser: true,
      deadlineMs: HELPER_DEADLINE_MS,
      capture: { input: rest.join(" ") },
    },
    { clock, signal },
  )
  for (const [, inode = "", pid] of stdout.matchAll(/^(\d+) (\d+)$/gm)) {
    const owner = ownerOf(Number(pid))
    if (owner !== undefined) owners.set(inode, owner)
  }
  return owners
}

const look = (inodes: ReadonlySet<string>) => {
  const owners = new Map<string, Owner>()
  let isHidden = false
  for (const pid of readdirSync("/proc")) {
    if (!/^\d+$/.test(pid)) continue
    try {
      for (const fd of readdirSync(`/proc/${pid}/fd`)) {
        const inode = /^socket:\[(\d+)\]$/.exec(readLink(`/proc/${pid}/fd/${fd}`))?.[1]
        if (inode === undefined || !inodes.has(inode) || owners.has(inode)) continue
        const owner = ownerOf(Number(pid))
        if (owner !== undefined) owners.set(inode, owner)
      }
    } catch (thrown) {
      isHidden ||= isDenied(thrown)
    }
  }
  return { owners, isHidden }
}

/** Reads a descriptor's link; empty if it was closed meanwhile. */
const readLink = (path: string): string => {
  try {
    return readlinkSync(path)
  } catch (thrown) {
    if (isDenied(thrown)) throw thrown
    return ""
  }
}

const isDenied = (thrown: unknown): boolean => {
  const { code } = thrown as NodeJS.ErrnoException
  return code === "EACCES" || code === "EPERM"
}

const ownerOf = (pid: number): Owner | undefined => {
  try {
    return { pid, name: readFileSync(`/proc/${pid}/comm`, "utf8").trimEnd() }
  } catch {
    return undefined
  }
}

/** The helper's program. Does what `look` does: reads inodes, and prints each with the pid that has it open. */
const HELPER = `
const { readdirSync, readFileSync, readlinkSync } = require("node:fs")
const wanted = new Set(readFileSync(0, "latin1").split(" "))
for (const pid of readdirSync("/proc").filter((name) => /^\\d+$/.test(name))) {
  try {
    for (const fd of readdirSync("/proc/" + pid + "/fd")) {
      try {
        const inode = /^socket:\\[(\\d+)\\]$/.exec(readlinkSync("/proc/" + pid + "/fd/" + fd))?.[1]
        if (wanted.delete(inode)) console.log(inode, pid)
      } catch {}
    }
  } catch {}
}`
