/** The commands that run on this machine. Loaded when one of them runs: clients elsewhere have no server package. */
export const loadHost = () => import("@berth/server/main")
