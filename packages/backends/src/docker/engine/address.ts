import type { EngineAddress } from "@berth/local/config/engine-address"

export type { EngineAddress } from "@berth/local/config/engine-address"

export const describeAddress = (address: EngineAddress): string =>
  "socketPath" in address ? address.socketPath : `${address.host}:${address.port}`
