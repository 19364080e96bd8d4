import { createHash } from "node:crypto"
import type { InstallationId } from "@berth/protocol/ids"
import type { Ipv4Range } from "@berth/protocol/network"

/** The longest name that the kernel takes for a network device. */
const MAX_DEVICE_LENGTH = 15
/** The prefix of every bridge of ours, and of no other device. */
export const DEVICE_MARK = "btd-"
const KEY_LENGTH = MAX_DEVICE_LENGTH - DEVICE_MARK.length

export interface NetworkNames {
  /** The name of the network in the engine. */
  readonly network: string
  /** The network's bridge on the host. The rules match it by name, so they can be there before it is. */
  readonly device: string
  /** The firewall's table, of family inet. */
  readonly table: string
}

/** The names for the network of sandboxes that may reach these ranges beside the internet. */
export const networkNames = (
  installation: InstallationId,
  allow: readonly Ipv4Range[] = [],
): NetworkNames => {
  const key = createHash("sha256")
    .update([installation, ...normalised(allow)].join(" "))
    .digest("hex")
    .slice(0, KEY_LENGTH)
  const { network, table } = plainNames(installation)
  return allow.length === 0
    ? { network, device: DEVICE_MARK + installation.slice(-KEY_LENGTH), table }
    : { network: `${network}-${key}`, device: DEVICE_MARK + key, table: `${table}_${key}` }
}

const plainNames = (installation: InstallationId) => ({
  network: `berth-${installation}`,
  table: `berth_docker_${installation.slice("inst-".length)}`,
})

/** The names for a network with a list of ranges; undefined for any other network. */
export const listedNames = (
  installation: InstallationId,
  network: string,
): Pick<NetworkNames, "network" | "table"> | undefined => {
  const plain = plainNames(installation)
  const key = network.startsWith(`${plain.network}-`) && network.slice(plain.network.length + 1)
  return key ? { network, table: `${plain.table}_${key}` } : undefined
}

/** Sorts ranges and drops repeats, so that neither makes another network. */
export const normalised = (allow: readonly Ipv4Range[]): Ipv4Range[] =>
  [...new Set(allow)].toSorted()
