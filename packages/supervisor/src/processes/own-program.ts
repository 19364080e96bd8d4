import type { User } from "./user.ts"

/** Node's flags for every program of ours. SIGUSR1, which the user may send it, must not open the inspector. */
export const OWN_PROGRAM_FLAGS = ["--disable-sigusr1"] as const

/**
 * Gives up root for good. A program of ours starts as root and calls this first. The kernel then treats it as a program
 * that had more rights than its user and makes it undumpable: the user can neither trace it nor read its memory, its
 * environment or its descriptors. A process that was started as the user lacks this protection, and one that execs
 * loses it.
 */
export const becomeUser = ({ uid, gid }: User): void => {
  process.setgroups?.([])
  process.setgid?.(gid)
  process.setuid?.(uid)
}

/** Prepends the calls of `becomeUser` to a program that is passed to node as text. */
export const becomingUser = ({ uid, gid }: User, program: string): string =>
  `process.setgroups([]); process.setgid(${gid}); process.setuid(${uid})\n${program}`
