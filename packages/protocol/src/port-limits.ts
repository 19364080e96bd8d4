/** The numbers of ports, apart from their schemas: the supervisor loads no schema library. */

/** The most ports in one list; if a sandbox listens on more, the list is cut. */
export const MAX_LISTED_PORTS = 1_024

/** The most connections to ports that are open at the same time. */
export const MAX_PORT_CONNECTIONS = 128

/** The most watchers of ports at the same time. */
export const MAX_PORT_WATCHERS = 32

/** The most ports of the host that one workspace names. */
export const MAX_HOST_PORTS = 16

/** Ports below this one are services of the system itself. */
export const MIN_HOST_PORT = 1_024

/** The most connections of one sandbox to ports of the host that are open at the same time. */
export const MAX_HOST_CONNECTIONS = 64

/** The reasons why the sandbox ends a connection, as WebSocket close codes; 1000: both ends have ended it. */
export const PORT_CLOSE = {
  /** The sandbox is stopping. */
  stopping: 4000,
  /** The program inside has reset the connection. */
  reset: 4001,
  /** The client sent an invalid message. */
  badMessage: 4002,
  /** The watcher did not read. It may watch again. */
  tooSlow: 4003,
} as const
