import type { Writable } from "node:stream"
import type { LayerId, PinId, SandboxId, Slug, TopId } from "@berth/protocol/ids"
import type { LayersListing, LayersReport, StackKey } from "@berth/protocol/layer"
import type { ExportedTree, ExportOptions } from "./archive/export.ts"
import type { Imported, ImportOptions } from "./archive/import.ts"
import type { Collected } from "./collect/collect.ts"
import type { Flattened } from "./flatten.ts"
import type { Frozen } from "./freeze.ts"
import type { Snapshot, SnapshotOptions } from "./snapshot.ts"
import type { PutOptions } from "./stacks/put.ts"
import type { Call, Discarding } from "./store/context.ts"
import type { ClaimedTop, IsAlive } from "./tops/claim.ts"
import type { EnsuredTop, TreeRoot } from "./tops/ensure.ts"
import type { VerifyOptions } from "./verify/verify.ts"

/**
 * The files of workspaces as stacks of frozen layers with a writable top.
 *
 * ```
 * put ─► ensureTop ─► claimTop ─► (a sandbox runs) ─► releaseTop ─► freeze ─► ensureTop …
 *                          └ snapshot ─► put elsewhere: a fork         └ put elsewhere: a fork
 * ```
 *
 * Every call that is interrupted leaves all of its result or nothing; `verify` removes its leftovers.
 */
export interface Layers {
  /** Puts a stack's files on a frozen layer, which may be another stack's, or on nothing. */
  put(key: StackKey, layer: LayerId | null, options?: PutOptions): Promise<void>
  /** Forgets a stack. Does nothing for an unknown one. */
  remove(key: StackKey): Promise<void>
  /** The workspaces that have stacks, and those that are noted as having no known owner. */
  findOwnerless(): Promise<{ readonly stacked: readonly Slug[]; readonly noted: readonly Slug[] }>
  /** Whether a workspace has any stack. */
  hasStacks(workspace: Slug): Promise<boolean>
  /** Notes that no owner is known of a workspace's stacks. Returns the time since when that is so. */
  noteOwnerless(workspace: Slug): Promise<number>
  noteOwned(workspace: Slug): Promise<void>
  /** Gives the stack's top. Makes one if there is none. */
  ensureTop(key: StackKey, root?: TreeRoot): Promise<EnsuredTop>
  /** Gives the stack's top to one sandbox, and says how to mount it. */
  claimTop(key: StackKey, sandbox: SandboxId, isAlive?: IsAlive): Promise<ClaimedTop>
  /** Ends a claim when its sandbox is gone. */
  releaseTop(top: TopId, sandbox: SandboxId): Promise<void>
  /** Ends the sandbox's claim on the stack's top, if it has one. */
  releaseStack(key: StackKey, sandbox: SandboxId): Promise<void>
  /** Makes a stopped sandbox's top a layer, without a copy. */
  freeze(key: StackKey, call?: Call): Promise<Frozen>
  /** Copies the tops that a running sandbox has of these stacks into layers, as they are at one moment. */
  snapshot(keys: readonly StackKey[], options: SnapshotOptions): Promise<Snapshot>
  /**
   * Makes one layer in place of a stack's frozen ones. A sandbox that has the top goes on as it is; the next one gets
   * the new layer.
   */
  flatten(key: StackKey, call?: Call): Promise<Flattened>
  unpin(pin: PinId): Promise<void>
  /** Removes layers and tops that nothing refers to. */
  collect(call?: Discarding): Promise<Collected>
  verify(options?: VerifyOptions): Promise<LayersReport>
  /** The sandboxes that an interrupted snapshot may have left frozen. `verify` reports and forgets them. */
  perhapsFrozen(): Promise<SandboxId[]>
  list(call?: Call): Promise<LayersListing>
  /** Writes the files that frozen layers show as an archive, which any other store can take. */
  exportTrees(trees: readonly ExportedTree[], to: Writable, options: ExportOptions): Promise<void>
  /** Takes these trees from an archive, which may come from anybody. */
  importTrees(
    from: AsyncIterable<Buffer>,
    names: readonly Slug[],
    options: ImportOptions,
  ): Promise<Imported>
  /** Stops deleting the trash; the next process that opens the store goes on. */
  close(): Promise<void>
}
