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

/** What every call takes: it can be cancelled, and it ends by its deadline. */
export interface Call {
  readonly signal?: AbortSignal
  /** Default: the operation's own, see DEADLINES_MS. */
  readonly deadlineMs?: number
}

/** How long each operation may take before it fails with `deadline.exceeded`. */
export const DEADLINES_MS = {
  describe: 5_000,
  /** An image may have to be fetched first. */
  resolveSystem: 30 * 60_000,
  create: 30_000,
  start: 15_000,
  /** On top of the grace that the caller gives. */
  stop: 10_000,
  pause: 5_000,
  resume: 5_000,
  remove: 30_000,
  list: 10_000,
  inspect: 5_000,
  stats: 5_000,
  logs: 5_000,
  ensureNetwork: 15_000,
  ensureCache: 15_000,
  listCaches: 10_000,
  /** One of many gigabytes in small files. */
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

/** What this backend can do on this host. */
export interface BackendDescription {
  readonly backend: string
  /** The engine's name and version, in its own words. */
  readonly engine: string
  readonly pause: boolean
  readonly limits: Readonly<Record<LimitName, { held: true } | { held: false; why: string }>>
  readonly networks: readonly NetworkPolicy["kind"][]
  /** Whether the files of a sandbox can be a stack of layers. */
  readonly layers: boolean
  /** What a reader should know of this host: fences that do not stand, and why. */
  readonly notes: readonly string[]
}

/** What a sandbox uses; undefined is what this host does not count. */
export interface SandboxStats {
  readonly memoryBytes: number | undefined
  readonly cpuSeconds: number | undefined
  readonly pids: number | undefined
}

/** What an engine says of its own accord. After `resync`, anything may have changed: list again. */
export type BackendEvent =
  | { readonly kind: "exited"; readonly sandbox: SandboxId; readonly exit: SandboxExit }
  | { readonly kind: "removed"; readonly sandbox: SandboxId }
  | { readonly kind: "resync" }

/** What `recover` could not put right, and why. */
export interface Unrecovered {
  /** Undefined: it belongs to none. */
  readonly sandbox: SandboxId | undefined
  readonly failure: BerthError
}

/** What came of a cache: ready, or left out with the engine's own words. */
export type CacheResult =
  | { readonly cache: CacheName; readonly ready: true }
  | { readonly cache: CacheName; readonly ready: false; readonly engineSaid: string }

/** A cache that is there. */
export interface FoundCache {
  readonly workspace: Slug
  readonly cache: CacheName
  /** When a sandbox was last made with it; null: not known. */
  readonly usedAt: string | null
  /** Where it lies on this host; null: elsewhere. */
  readonly directory: string | null
}

/**
 * What makes sandboxes. Every call fails with a BerthError that keeps the engine's own words, and leaves
 * nothing half-done: what a failed call had made is gone when it rejects, or is found and removed by the
 * next `recover`. Nothing here names an engine.
 */
export interface Backend {
  readonly name: string
  /** Who root inside is outside: files that a sandbox is to own belong to this id and those after it. */
  readonly idBase: number
  describe(call?: Call): Promise<BackendDescription>
  /** What a workspace's system is at this moment; an image that is not there is fetched. */
  resolveSystem(source: SystemSource, call?: Call): Promise<SystemIdentity>
  /**
   * Removes what a crash in the middle of `create` or `remove` left. Once, before anything else. What cannot be
   * put right is said, never thrown, and holds up no other: `list` shows it, or the next `recover` finds it.
   */
  recover(call?: Call): Promise<readonly Unrecovered[]>
  /** Idempotent by sandbox id; the same id with another config hash is a conflict. */
  create(spec: SandboxSpec, call?: Call): Promise<ObservedSandbox>
  /** From `created` to `running`; of a running sandbox: nothing. */
  start(sandbox: SandboxId, call?: Call): Promise<void>
  /** Asks the first process to end, and makes it after the grace. Of one that does not run: nothing. */
  stop(sandbox: SandboxId, options: { graceMs: number }, call?: Call): Promise<void>
  pause(sandbox: SandboxId, call?: Call): Promise<void>
  resume(sandbox: SandboxId, call?: Call): Promise<void>
  /** By force, from any state; of an unknown sandbox: nothing. */
  remove(sandbox: SandboxId, call?: Call): Promise<void>
  /** This installation's sandboxes, no others. */
  list(call?: Call): Promise<readonly ObservedSandbox[]>
  inspect(sandbox: SandboxId, call?: Call): Promise<ObservedSandbox | undefined>
  /** Ends when the signal fires. What happens after `watch` has returned is never missed. */
  watch(signal: AbortSignal): AsyncIterable<BackendEvent>
  stats(sandbox: SandboxId, call?: Call): Promise<SandboxStats>
  /** The end of what the first process wrote, bounded. */
  logs(sandbox: SandboxId, call?: Call): Promise<string>
  /** Lets go of what this process holds; sandboxes run on. */
  close(): Promise<void>
  /** Makes what `open` needs on this host; shared by concurrent callers. */
  ensureNetwork(call?: Call): Promise<void>
  /** Makes a workspace's caches, in parallel; a cache that fails is said, never thrown. */
  ensureCaches(
    workspace: Slug,
    caches: readonly CacheName[],
    call?: Call,
  ): Promise<readonly CacheResult[]>
  /** This installation's caches, no others. */
  listCaches(call?: Call): Promise<readonly FoundCache[]>
  /** Of one that is not there: nothing. False: a sandbox has it, and it stays. */
  removeCache(workspace: Slug, cache: CacheName, call?: Call): Promise<boolean>
  /** Removes the files of a workspace that has no sandbox, where the engine has them and not the layers. Twice is as good as once. */
  removeFiles(workspace: Slug, call?: Call): Promise<void>
}
