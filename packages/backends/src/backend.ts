import type { BerthError } from "@berth/protocol/errors"
import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { LimitName } from "@berth/protocol/limits"
import type { NetworkPolicy } from "@berth/protocol/network"
import type {
  SandboxExit,
  SandboxIdentity,
  SandboxSpec,
  SystemIdentity,
  UnheldLimit,
} from "@berth/protocol/sandbox"
import type { CacheName, SystemSource } from "@berth/protocol/workspace"

/** Options of every call: a signal that cancels it, and a deadline. */
export interface Call {
  readonly signal?: AbortSignal
  /** The default is the operation's entry in DEADLINES_MS. */
  readonly deadlineMs?: number
}

/** How long each operation may take before it fails with `deadline.exceeded`. */
export const DEADLINES_MS = {
  describe: 5_000,
  /** Includes the time to fetch an image. */
  resolveSystem: 30 * 60_000,
  create: 30_000,
  start: 15_000,
  /** Added to the grace that the caller gives. */
  stop: 10_000,
  pause: 5_000,
  resume: 5_000,
  remove: 30_000,
  list: 10_000,
  inspect: 5_000,
  logs: 5_000,
  ensureNetwork: 15_000,
  ensureCache: 15_000,
  listCaches: 10_000,
  /** Enough for a cache of many gigabytes in small files. */
  removeCache: 120_000,
  removeFiles: 120_000,
} as const

/**
 * created ─► running ⇄ paused
 *    any ─► exited ─► (removed)
 */
export type EngineState = "created" | "running" | "paused" | "exited"

/** A sandbox as its engine sees it now. */
export interface ObservedSandbox {
  readonly identity: SandboxIdentity
  readonly state: EngineState
  readonly createdAt: string
  /** Present exactly when `state` is `exited`. */
  readonly exit?: SandboxExit
  readonly unheldLimits: readonly UnheldLimit[]
}

/** A backend's abilities on this host. */
export interface BackendDescription {
  readonly backend: string
  /** The engine's name and version, in its own words. */
  readonly engine: string
  readonly pause: boolean
  readonly limits: Readonly<Record<LimitName, { held: true } | { held: false; why: string }>>
  readonly networks: readonly NetworkPolicy["kind"][]
  /** Whether the files of a sandbox can be a stack of layers. */
  readonly layers: boolean
  /** Facts about this host for a person to read: fences that do not stand, and why. */
  readonly notes: readonly string[]
}

/** An event that the engine reports by itself. After `resync`, anything may have changed: list again. */
export type BackendEvent =
  | { readonly kind: "exited"; readonly sandbox: SandboxId; readonly exit: SandboxExit }
  | { readonly kind: "removed"; readonly sandbox: SandboxId }
  | { readonly kind: "resync" }

/** A leftover that `repair` could not put right, and why. */
export interface Unrepaired {
  /** Undefined if the leftover belongs to no sandbox. */
  readonly sandbox: SandboxId | undefined
  readonly failure: BerthError
}

/** The result of making a cache: ready, or left out with the engine's own words. */
export type CacheResult =
  | { readonly cache: CacheName; readonly ready: true }
  | { readonly cache: CacheName; readonly ready: false; readonly engineSaid: string }

/** A cache that exists. */
export interface FoundCache {
  readonly workspace: Slug
  readonly cache: CacheName
  /** The time at which a sandbox was last made with the cache; null if not known. */
  readonly usedAt: string | null
  /** The cache's directory on this host; null if it lies elsewhere. */
  readonly directory: string | null
}

/**
 * A backend makes sandboxes. Every call fails with a BerthError that keeps the engine's own words, and leaves nothing
 * half-done: anything that a failed call had made is gone when it rejects, or is found and removed by the next
 * `repair`. Nothing here names an engine.
 */
export interface Backend {
  readonly name: string
  /** The host's id of root inside. Files that a sandbox is to own belong to this id and those after it. */
  readonly idBase: number
  describe(call?: Call): Promise<BackendDescription>
  /** Resolves a workspace's system to its identity at this moment. Fetches an image that the engine lacks. */
  resolveSystem(source: SystemSource, call?: Call): Promise<SystemIdentity>
  /**
   * Removes leftovers of a crash in the middle of `create` or `remove`. Called once, before anything else. A leftover
   * that cannot be removed is returned, never thrown, and holds up no other: `list` shows it, or the next `repair`
   * finds it.
   */
  repair(call?: Call): Promise<readonly Unrepaired[]>
  /** Idempotent by sandbox id; the same id with another config hash is a conflict. */
  create(spec: SandboxSpec, call?: Call): Promise<ObservedSandbox>
  /** Brings a sandbox from `created` to `running`. Does nothing for a running sandbox. */
  start(sandbox: SandboxId, call?: Call): Promise<void>
  /** Asks the first process to end, and kills it after the grace. Does nothing for a sandbox that does not run. */
  stop(sandbox: SandboxId, options: { graceMs: number }, call?: Call): Promise<void>
  pause(sandbox: SandboxId, call?: Call): Promise<void>
  resume(sandbox: SandboxId, call?: Call): Promise<void>
  /** Removes a sandbox by force, from any state. Does nothing for an unknown sandbox. */
  remove(sandbox: SandboxId, call?: Call): Promise<void>
  /** Lists this installation's sandboxes, no others. */
  list(call?: Call): Promise<readonly ObservedSandbox[]>
  inspect(sandbox: SandboxId, call?: Call): Promise<ObservedSandbox | undefined>
  /** Ends when the signal fires. Events after `watch` has returned are never missed. */
  watch(signal: AbortSignal): AsyncIterable<BackendEvent>
  /** The end of the first process's output, bounded. */
  logs(sandbox: SandboxId, call?: Call): Promise<string>
  /** Releases the resources of this process; sandboxes run on. */
  close(): Promise<void>
  /** Makes what the network policy `open` needs on this host; concurrent callers share one attempt. */
  ensureNetwork(call?: Call): Promise<void>
  /** Makes a workspace's caches, in parallel. A cache that fails is returned as such, never thrown. */
  ensureCaches(
    workspace: Slug,
    caches: readonly CacheName[],
    call?: Call,
  ): Promise<readonly CacheResult[]>
  /** Lists this installation's caches, no others. */
  listCaches(call?: Call): Promise<readonly FoundCache[]>
  /** Removes a cache; does nothing if there is none. Returns false if a sandbox has the cache, which then stays. */
  removeCache(workspace: Slug, cache: CacheName, call?: Call): Promise<boolean>
  /** Removes the files of a workspace that has no sandbox, where the engine has them and not the layers. Idempotent. */
  removeFiles(workspace: Slug, call?: Call): Promise<void>
}
