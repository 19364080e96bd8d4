import type { CgroupMode } from "@berth/host/cgroups/mounts"
import type { SandboxId } from "@berth/protocol/ids"
import type { Limits } from "@berth/protocol/limits"

/** Whether something works on this host, and if not, why. */
export type Held = { readonly held: true } | { readonly held: false; readonly why: string }

export type CgroupLimits = Pick<Limits, "memoryBytes" | "cpus" | "pids">

/**
 * A limit that cgroups can hold, or an ability. `pause`: a sandbox can be frozen. `kill`: its processes can be told
 * from all others, and so be listed and killed. Where `kill` is not held, nothing else is, a cgroup has no `joinFiles`,
 * and its `pids`, `kill`, `freeze` and `thaw` fail with `backend.unsupported`.
 */
export type CgroupAbility = keyof CgroupLimits | "pause" | "kill"

/** The cgroups of one installation, with one interface for v1, v2 and hybrid hierarchies. */
export interface Cgroups {
  readonly mode: CgroupMode
  readonly held: Readonly<Record<CgroupAbility, Held>>
  /** Whether memory can be taken back from a sandbox that is paused. */
  readonly canReclaim: boolean
  /**
   * Makes the cgroup of a sandbox with its limits set, or sets them on an existing one. A limit that is not held is
   * left out. Everything that a failed call had made is gone when it rejects.
   */
  create(sandbox: SandboxId, limits: CgroupLimits): Promise<Cgroup>
  /** The cgroup of a sandbox, which may not exist. */
  open(sandbox: SandboxId): Cgroup
  /** The sandboxes that have a cgroup in any hierarchy. */
  list(): Promise<SandboxId[]>
}

export interface Cgroup {
  /** Files into which a process of one thread writes 0 to join; it has joined when it has written to all. */
  readonly joinFiles: readonly string[]
  /** The cgroup's path in its hierarchies, in the form of an OCI bundle's `linux.cgroupsPath`. */
  readonly path: string
  setLimits(limits: CgroupLimits): Promise<void>
  /** Stops every process inside. If that fails, they run again. */
  freeze(signal: AbortSignal): Promise<void>
  thaw(signal: AbortSignal): Promise<void>
  isFrozen(): Promise<boolean>
  /** Takes memory back from a frozen cgroup, as far as this host can. */
  reclaim(signal: AbortSignal): Promise<void>
  /** The processes inside, including those in nested cgroups. */
  pids(): Promise<number[]>
  /** Kills every process inside, frozen or not, until none is left. */
  kill(signal: AbortSignal): Promise<void>
  /** The number of processes that the kernel has killed because the memory limit was reached. */
  oomKills(): Promise<number>
  exists(): Promise<boolean>
  /** Removes the cgroup and those nested in it as soon as no process is inside. It kills none. */
  remove(signal: AbortSignal): Promise<void>
}
