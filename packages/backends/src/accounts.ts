import { AGENT_USER } from "@berth/protocol/inside"

const NOBODY_ID = 65_534
/** The group that terminals belong to; /dev/pts is mounted with it. */
export const TTY_GROUP_ID = 5

const { name: AGENT, uid, gid, home } = AGENT_USER

/** Entries of passwd and group for a system that brings no such files. */
const OWN_GROUPS = [`root:x:0:`, `tty:x:${TTY_GROUP_ID}:`, `nogroup:x:${NOBODY_ID}:`]
const ownUsers = (shell: string) => [
  `root:x:0:0:root:/root:${shell}`,
  `nobody:x:${NOBODY_ID}:${NOBODY_ID}:nobody:/nonexistent:/usr/sbin/nologin`,
]

/**
 * Makes /etc/passwd: the user that agents run as, then the system's own users. The agent's user stands first, so that
 * its name is found for its id even where the system has another user with that id.
 */
export const passwd = (own: string | undefined, shell: string): string =>
  lines([
    `${AGENT}:x:${uid}:${gid}:agent:${home}:${shell}`,
    ...(own === undefined ? ownUsers(shell) : withoutAgent(own)),
  ])

export const group = (own: string | undefined): string =>
  lines([`${AGENT}:x:${gid}:`, ...(own === undefined ? OWN_GROUPS : withoutAgent(own))])

const withoutAgent = (text: string) =>
  text.split("\n").filter((line) => line !== "" && !line.startsWith(`${AGENT}:`))

const lines = (all: readonly string[]) => `${all.join("\n")}\n`
