/**
 * The numbers and names of commands. They stand apart from the schemas, so that the supervisor does not load
 * a schema library.
 */

/** The first byte of each binary frame names the stream; the rest are bytes of it. */
export const COMMAND_CHANNEL = { stdin: 0, stdout: 1, stderr: 2 } as const

/** The close codes of a connection, beside 1000 after an exit. */
export const COMMAND_CLOSE = {
  /** Follows an `error`, which says why. */
  failed: 4000,
} as const

/** The users that a command can run as. */
export const COMMAND_USERS = ["agent", "root"] as const

/** The signals that can be sent to a command. */
export const COMMAND_SIGNALS = [
  ...(["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGKILL", "SIGUSR1", "SIGUSR2"] as const),
  ...(["SIGALRM", "SIGABRT", "SIGPIPE", "SIGSTOP", "SIGTSTP", "SIGCONT", "SIGWINCH"] as const),
] as const

/** The most that a timer takes, a little more than 24 days. */
export const MAX_COMMAND_TIMEOUT_MS = 2 ** 31 - 1

/** The bound on a client's frame; the supervisor's own hold at most 64 KiB. */
export const MAX_COMMAND_FRAME_BYTES = 1024 * 1024

/** The most commands that run at the same time, of all clients. */
export const MAX_COMMANDS = 1_024

/** The bytes that are kept of each stream of a background command; less where many share the room. */
export const MAX_COMMAND_OUTPUT_BYTES = 1024 * 1024

/** The most background commands that have ended and are remembered: the last ones, for a while. */
export const MAX_ENDED_COMMANDS = 128
export const ENDED_COMMAND_KEPT_MS = 15 * 60_000
