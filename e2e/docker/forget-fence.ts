import { dropFence } from "@berth/backends/docker/network/fence"
import { networkNames } from "@berth/backends/docker/network/names"
import type { InstallationId } from "@berth/protocol/ids"

const DEADLINE_MS = 30_000

/**
 * Takes the fence of an installation on Docker away, which outlives its server. nft reads all tables of the host at
 * each call: tables that were left made later tests several times slower.
 */
export const forgetFence = (installation: InstallationId): Promise<void> =>
  dropFence(networkNames(installation), AbortSignal.timeout(DEADLINE_MS))
