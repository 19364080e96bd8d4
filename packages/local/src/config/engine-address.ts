/** The address of an engine: the options that node's HTTP client takes. */
export type EngineAddress =
  | { readonly socketPath: string }
  | { readonly host: string; readonly port: number }

/** The address on which an engine listens by default. */
export const DEFAULT_ENGINE = "unix:///var/run/docker.sock"

const DEFAULT_TCP_PORT = 2375

/** Parses a value of $DOCKER_HOST; undefined if it cannot be reached over plain HTTP. */
export const parseEngineAddress = (dockerHost: string): EngineAddress | undefined => {
  if (/^unix:\/\/\/./.test(dockerHost)) return { socketPath: dockerHost.slice("unix://".length) }
  const tcp = /^tcp:\/\/(?:\[([\da-f:.]+)\]|([\w.-]+))(?::(\d{1,5}))?\/?$/i.exec(dockerHost)
  if (tcp === null) return undefined
  const [, ipv6, name = "", port = DEFAULT_TCP_PORT] = tcp
  return { host: ipv6 ?? name, port: Number(port) }
}
