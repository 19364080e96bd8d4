import { createHash } from "node:crypto"
import type { InstallationId } from "@berth/protocol/ids"

/** Every sandbox has this many user and group ids: 0 to 65535 inside. */
export const ID_COUNT = 65_536

/**
 * Ranges start above those that other programs hand out (subordinate ids of users, systemd-nspawn's
 * containers: up to 0x6fffffff) and end below 2³¹, which some programs take for negative.
 */
const FIRST_BASE = 0x7001_0000
export const RANGES = 0x0ffe

/** The first id of a range, by its number. */
export const rangeAt = (index: number): number => FIRST_BASE + index * ID_COUNT

/**
 * The first id of the range that an installation's files have on disk: root inside is nobody outside. The range follows
 * from the installation's id, since files carry it for good.
 */
export const idBase = (installation: InstallationId): number => {
  const hash = createHash("sha256").update(installation).digest().readUInt32BE(0)
  return rangeAt(hash % RANGES)
}

/** The user that agents and hooks run as inside. */
export const AGENT_ID = 1000
