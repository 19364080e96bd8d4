/** The numbers of ports, apart from their schemas: the supervisor loads no schema library. */

/** In one list; a sandbox that listens on more is not told of in full. */
export const MAX_LISTED_PORTS = 1_024

/** Connections to ports that are open at the same time. */
export const MAX_PORT_CONNECTIONS = 128

/** Who watches the ports at the same time. */
export const MAX_PORT_WATCHERS = 32

/** Ports of the host that one workspace names. */
export const MAX_HOST_PORTS = 16

/** Ports below this one are services of the system itself. */
export const MIN_HOST_PORT = 1_024

/** Connections of one sandbox to ports of the host that are open at the same time. */
export const MAX_HOST_CONNECTIONS = 64

/** Why the sandbox ends a connection, as WebSocket close codes; 1000: both ends have ended it. */
export const PORT_CLOSE = {
  /** The sandbox goes down. */
  stopping: 4000,
  /** The program inside has broken it off. */
  reset: 4001,
  /** The client sent what is no message. */
  badMessage: 4002,
  /** One that watches did not read. It may watch again. */
  tooSlow: 4003,
} as const
