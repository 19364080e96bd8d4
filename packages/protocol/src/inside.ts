/** The facts that hold inside of every sandbox, whatever makes it. */

/** The path of the toolbox, which is read-only. */
export const TOOLBOX_TARGET = "/opt/berth"

/** The directory of a workspace's repos. */
export const WORKSPACE_TARGET = "/workspace"

/**
 * The flags with which node runs the supervisor. A small young generation takes a third off its memory under load,
 * since passing data is collected soon; where much passes, the supervisor itself says when to collect. No signal opens
 * its inspector. A flag that changes what V8 compiles is not among them: node would compile its own modules anew at
 * each start, because their compiled code fits V8's default flags alone.
 */
export const SUPERVISOR_FLAGS = ["--max-semi-space-size=1", "--disable-sigusr1"] as const

/** The user of hooks, sidecars and the agent. */
export const AGENT_USER = { name: "agent", uid: 1000, gid: 1000, home: "/home/agent" } as const
