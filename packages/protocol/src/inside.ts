/** What every sandbox is like inside, whatever makes it. */

/** Where every sandbox has its toolbox, read-only. */
export const TOOLBOX_TARGET = "/opt/berth"

/** Where the repos of a workspace lie. */
export const WORKSPACE_TARGET = "/workspace"

/**
 * How node runs the supervisor: what passes through it is not kept until it is worth collecting, which takes a
 * third off its memory under load; where much passes, it says itself when to collect. Its compiled code is made
 * with the same flags, or it would not fit. No signal opens its inspector.
 */
export const SUPERVISOR_FLAGS = [
  "--max-semi-space-size=1",
  "--expose-gc",
  "--disable-sigusr1",
] as const

/** Whom hooks, sidecars and the agent run as. */
export const AGENT_USER = { name: "agent", uid: 1000, gid: 1000, home: "/home/agent" } as const
