/** Where an engine listens: the options that node's HTTP client takes. */
export type EngineAddress =
  | { readonly socketPath: string }
  | { readonly host: string; readonly port: number }

/** Where an engine listens unless it is told otherwise. */
export const DEFAULT_ENGINE = "unix:///var/run/docker.sock"

const DEFAULT_TCP_PORT = 2375

/** Reads a value of $DOCKER_HOST; undefined for what cannot be asked over plain HTTP. */
export const parseEngineAddress = (dockerHost: string): EngineAddress | undefined => {
  if (/^unix:\/\/\/./.test(dockerHost)) return { socketPath: dockerHost.slice("unix://".length) }
  const tcp = /^tcp:\/\/(?:\[([\da-f:.]+)\]|([\w.-]+))(?::(\d{1,5}))?\/?$/i.exec(dockerHost)
  if (tcp === null) return undefined
  const [, ipv6, name = "", port = DEFAULT_TCP_PORT] = tcp
  return { host: ipv6 ?? name, port: Number(port) }
}
