import type { Serially } from "@berth/host/serial"
import type { LayerId, PinId, TopId } from "@berth/protocol/ids"
import type { LayerFlavour } from "@berth/protocol/layer"
import type { Layout } from "../io/layout.ts"
import type { CompareTrees } from "../trees/compare.ts"
import type { Trash } from "../trees/trash.ts"
import type { WalkTree } from "../trees/walk.ts"

/** The parts that every operation on one store shares. */
export interface Context {
  readonly layout: Layout
  readonly flavour: LayerFlavour
  readonly idBase: number
  /** Called with every step after which a crash must do no harm. */
  at(step: string): void | Promise<void>
  /**
   * Serializes operations that must not overlap: one key a stack, and STORE for those that create or drop references,
   * so that nothing is collected between its making and its first reference. STORE is taken last and briefly.
   */
  readonly serially: Serially
  /** Drafts in `incoming` that operations of this process are making: they are no leftovers. */
  readonly underWay: Set<string>
  /** Tops that this process made and has not told anybody how to mount: the kernel need not be asked about them. */
  readonly unseen: Set<TopId>
  /** The passing pins of this process. */
  readonly passing: Set<PinId>
  readonly walk: WalkTree
  readonly compare: CompareTrees
  readonly trash: Trash
  /** Layers that operations of this process read. */
  readonly reading: Map<symbol, readonly LayerId[]>
}

export const STORE = "store"

export interface Call {
  readonly signal?: AbortSignal
}

export interface Discarding extends Call {
  /**
   * Whether the call waits until the trees that it threw away are deleted, not only moved to the trash. Default: true.
   */
  readonly wait?: boolean
}
