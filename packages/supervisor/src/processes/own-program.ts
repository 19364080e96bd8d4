import type { User } from "./user.ts"

/** How node runs every program of ours: SIGUSR1, which the user may send it, does not open its inspector. */
export const OWN_PROGRAM_FLAGS = ["--disable-sigusr1"] as const

/**
 * Gives up root for good. A program of ours starts as root and calls this first, so that the kernel takes it for
 * one that had rights which its user lacks: from then on it is not dumpable, and the user can neither trace it
 * nor read its memory, its environment or its descriptors. A process that was started as the user has no such
 * wall, and one that execs loses it.
 */
export const becomeUser = ({ uid, gid }: User): void => {
  process.setgroups?.([])
  process.setgid?.(gid)
  process.setuid?.(uid)
}

/** Makes a program that is given to node as text begin with `becomeUser`. */
export const becomingUser = ({ uid, gid }: User, program: string): string =>
  `process.setgroups([]); process.setgid(${gid}); process.setuid(${uid})\n${program}`
