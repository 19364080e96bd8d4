import type { InstallationId } from "@berth/protocol/ids"

/** The longest name that the kernel takes for a network device. */
const MAX_DEVICE_LENGTH = 15
/** Begins the name of every installation's bridge. */
const DEVICE_MARK = "bd"

export interface NetworkNames {
  /** Of the network in the engine. */
  readonly network: string
  /** The network's bridge on the host: the rules match it, so they can be there before it is. */
  readonly device: string
  /** The firewall's table, of family inet. */
  readonly table: string
}

export const networkNames = (installation: InstallationId): NetworkNames => ({
  network: `berth-${installation}`,
  device: DEVICE_MARK + installation.slice(DEVICE_MARK.length - MAX_DEVICE_LENGTH),
  table: `berth_docker_${installation.slice("inst-".length)}`,
})
