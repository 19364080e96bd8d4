/**
 * The directory that a sandbox shares with the server, and with nobody else inside: only root may enter it.
 * The names stand apart from the schemas, for the supervisor's sake.
 */

/** The path of the shared directory inside a sandbox. */
export const SHARED_TARGET = "/run/berth"

/** The variable that tells the supervisor to serve on this port as well, where the server cannot reach its socket. */
export const SUPERVISOR_PORT_VARIABLE = "BERTH_SUPERVISOR_PORT"

/** The names of the files in the shared directory. */
export const SHARED = {
  /** Written by the server before the start. */
  token: "token",
  plan: "plan.json",
  /** Made by the supervisor. */
  socket: "supervisor.sock",
  journal: "journal",
  ledger: "ledger",
  trace: "boot.json",
} as const
