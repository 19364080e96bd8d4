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
  if (!/^(tcp|http):\/\//.test(dockerHost)) return undefined
  const url = URL.parse(dockerHost.replace(/^tcp:/, "http:"))
  if (url === null || url.hostname === "") return undefined
  const port = url.port === "" ? DEFAULT_TCP_PORT : Number(url.port)
  return { host: url.hostname.replace(/^\[(.*)\]$/, "$1"), port }
}
