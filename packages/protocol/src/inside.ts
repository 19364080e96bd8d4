/** The facts that hold inside of every sandbox, whatever makes it. */

/** The path of the toolbox, which is read-only. */
export const TOOLBOX_TARGET = "/opt/berth"

/** The directory of a workspace's repos. */
export const WORKSPACE_TARGET = "/workspace"

/**
 * The flags with which node runs the supervisor. A small young generation takes a third off its memory under load,
 * since passing data is collected soon; where much passes, the supervisor itself says when to collect. Its compiled
 * code is made with the same flags, or it would not fit. No signal opens its inspector.
 */
export const SUPERVISOR_FLAGS = [
  "--max-semi-space-size=1",
  "--expose-gc",
  "--disable-sigusr1",
] as const

/** The user of hooks, sidecars and the agent. */
export const AGENT_USER = { name: "agent", uid: 1000, gid: 1000, home: "/home/agent" } as const
