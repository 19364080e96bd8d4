/** What every sandbox is like inside, whatever makes it. */

/** Where every sandbox has its toolbox, read-only. */
export const TOOLBOX_TARGET = "/opt/berth"

/** Where the repos of a workspace lie. */
export const WORKSPACE_TARGET = "/workspace"

/** Whom hooks, sidecars and the agent run as. */
export const AGENT_USER = { name: "agent", uid: 1000, gid: 1000, home: "/home/agent" } as const
