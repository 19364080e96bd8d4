/** Where an engine listens: the path of its socket, or a host and port. */
export type EngineAddress =
  | { readonly socketPath: string }
  | { readonly host: string; readonly port: number }

export const describeAddress = (address: EngineAddress): string =>
  "socketPath" in address ? address.socketPath : `${address.host}:${address.port}`
