/** The numbers of terminals, apart from their schemas: the supervisor loads no schema library. */

/** No screen has more cells a side; the kernel takes up to 65535. */
export const MAX_TERMINAL_CELLS = 1_000

/** The most terminals that run at the same time. Each is a shell, and holds its scrollback in memory. */
export const MAX_TERMINALS = 64

/** The most terminals that have ended and are remembered, with their scrollback: the last ones. */
export const MAX_ENDED_TERMINALS = 16

/** The bytes that are kept of a terminal's output: about 3,000 full lines of 80 characters. */
export const SCROLLBACK_BYTES = 256 * 1024

/** The most viewers of all terminals together. Each may have as much as a scrollback on its way. */
export const MAX_TERMINAL_VIEWERS = 64

/** The reasons why the sandbox ends a viewer's connection, as WebSocket close codes; 1000 comes after `exit`. */
export const TERMINAL_CLOSE = {
  /** The terminal was removed, or the sandbox is stopping. */
  removed: 4000,
  /** The viewer did not read while others did, or for too long. It may attach again. */
  tooSlow: 4001,
  /** The viewer sent an invalid message. */
  badMessage: 4002,
  /** The program does not read the input. The viewer may attach again. */
  notRead: 4003,
} as const
