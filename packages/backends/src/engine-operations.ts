import type { SandboxId, Slug } from "@berth/protocol/ids"
import type { SandboxSpec, SystemIdentity } from "@berth/protocol/sandbox"
import type { CacheName, SystemSource } from "@berth/protocol/workspace"
import type {
  BackendDescription,
  CacheResult,
  FoundCache,
  ObservedSandbox,
  Unrepaired,
} from "./backend.ts"

/**
 * The operations on an engine itself, which differ between backends. The frame (`frame.ts`) adds what all have in
 * common, so an operation has a signal that fires at its deadline, is alone with its sandbox, and throws what it likes.
 *
 * `Found` is what a backend knows of a sandbox that exists; `Startable` is what its start needs.
 */
export interface EngineOperations<Found, Startable = Found> {
  readonly name: string
  idBase(): number
  describe(signal: AbortSignal): Promise<BackendDescription>
  resolveSystem(source: SystemSource, signal: AbortSignal): Promise<SystemIdentity>
  /** Removes leftovers of a crash. */
  repair(signal: AbortSignal): Promise<readonly Unrepaired[]>
  /** Continues `repair` once the fence stands again. */
  afterRepair(signal: AbortSignal): Promise<void>

  /** Undefined for a sandbox that does not exist, or that is another installation's. */
  find(sandbox: SandboxId, signal: AbortSignal): Promise<Found | undefined>
  findToStart(sandbox: SandboxId, signal: AbortSignal): Promise<Startable | undefined>
  findAll(signal: AbortSignal): Promise<readonly Found[]>
  observe(found: Found | Startable, signal: AbortSignal): Promise<ObservedSandbox>

  /** Creates a sandbox of this installation, or finds the one that has its id. */
  create(spec: SandboxSpec, signal: AbortSignal): Promise<ObservedSandbox>
  /** Starts a sandbox that is `created`. */
  start(found: Startable, signal: AbortSignal): Promise<void>
  /** Pauses a sandbox that is `running`. */
  pause(found: Found, signal: AbortSignal): Promise<void>
  /** Resumes a sandbox that is `paused`. */
  resume(found: Found, signal: AbortSignal): Promise<void>
  /** Returns false if there is no such sandbox. */
  stop(sandbox: SandboxId, graceMs: number, signal: AbortSignal): Promise<boolean>
  remove(sandbox: SandboxId, signal: AbortSignal): Promise<void>

  logs(found: Found, signal: AbortSignal): Promise<string>

  ensureNetwork(signal: AbortSignal): Promise<void>
  /** Restores the fence between sandboxes and the rest. Returns whether it was gone. */
  restoreFence(signal: AbortSignal): Promise<boolean>

  ensureCaches(
    workspace: Slug,
    caches: readonly CacheName[],
    signal: AbortSignal,
  ): Promise<readonly CacheResult[]>
  listCaches(signal: AbortSignal): Promise<readonly FoundCache[]>
  removeCache(workspace: Slug, cache: CacheName, signal: AbortSignal): Promise<boolean>
  removeFiles(workspace: Slug, signal: AbortSignal): Promise<void>

  close(): Promise<void>
}
