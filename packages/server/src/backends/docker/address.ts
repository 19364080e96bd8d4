import type { EngineAddress } from "../../config/engine-address.ts"

export type { EngineAddress } from "../../config/engine-address.ts"

export const describeAddress = (address: EngineAddress): string =>
  "socketPath" in address ? address.socketPath : `${address.host}:${address.port}`
