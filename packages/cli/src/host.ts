/**
 * The commands that a host runs by itself. Loaded when such a command runs: clients of a server need none of the
 * server's code.
 */
export const loadHost = () => import("@berth/server/main")
