/** The commands that a host does by itself. Loaded when a command of it runs: clients of a server need none of the server's code. */
export const loadHost = () => import("@berth/server/main")
