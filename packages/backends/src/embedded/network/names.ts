import type { InstallationId, SandboxId } from "@berth/protocol/ids"
import { connectionsTableOf } from "../../connections/rules.ts"

/** The longest name that the kernel takes for a network device. */
const MAX_DEVICE_LENGTH = 15
const INSTALLATION_LETTERS = 5

/** The prefix of every installation's devices. */
export const DEVICE_MARK = "bt"

export interface Names {
  /** The firewall's table, of family inet. */
  readonly table: string
  /** The table that bounds connections. */
  readonly connectionsTable: string
  /** The prefix of this installation's devices, and of no other device: the rules match it. */
  readonly devicePrefix: string
  /** The comment on our rules in chains that belong to others. */
  readonly comment: string
  /**
   * The device's name, derived from the sandbox's id alone, so that it is known after a crash. Two ids may share one:
   * the reservation tells whose it is.
   */
  deviceOf(sandbox: SandboxId): string
}

/** The names of this installation's parts on the host. */
export const namesOf = (installation: InstallationId): Names => {
  const devicePrefix = `${DEVICE_MARK}${installation.slice(-INSTALLATION_LETTERS)}`
  const table = `berth_${installation.slice("inst-".length)}`
  return {
    table,
    connectionsTable: connectionsTableOf(table),
    devicePrefix,
    comment: `berth ${installation}`,
    deviceOf: (sandbox) => devicePrefix + sandbox.slice(devicePrefix.length - MAX_DEVICE_LENGTH),
  }
}
