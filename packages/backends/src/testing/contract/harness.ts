import type { InstallationId } from "@berth/protocol/ids"
import type { SystemIdentity } from "@berth/protocol/sandbox"
import type { Backend } from "../../backend.ts"

/** A backend to test against the contract: the real engine, and a census of its traces. */
export interface ContractHarness {
  readonly backend: Backend
  readonly installation: InstallationId
  /** A system with /bin/sh, coreutils and perl. */
  readonly system: SystemIdentity
  /** The same installation as a new server finds it. */
  reopen(): Promise<Backend>
  /** Another installation on the same engine. */
  other(): Promise<{ backend: Backend; installation: InstallationId }>
  /** Everything that this installation has on the host, counted by kind: processes, mounts, cgroups, … */
  census(): Promise<Record<string, number>>
  close(): Promise<void>
}
