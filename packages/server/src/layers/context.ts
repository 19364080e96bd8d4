import type { LayerId, PinId, TopId } from "@berth/protocol/ids"
import type { LayerFlavour } from "@berth/protocol/layer"
import type { Serially } from "../host/serial.ts"
import type { Layout } from "./layout.ts"
import type { CompareTrees } from "./trees/compare.ts"
import type { Trash } from "./trees/trash.ts"
import type { WalkTree } from "./trees/walk.ts"

/** What every operation on one store works with. */
export interface Context {
  readonly layout: Layout
  readonly flavour: LayerFlavour
  readonly idBase: number
  /** Told of every step after which a crash must do no harm. */
  at(step: string): void | Promise<void>
  /**
   * The order of what must not overlap: one key a stack, and STORE for what creates or drops references, so
   * that nothing is collected between its making and its first reference. STORE is taken last and briefly.
   */
  readonly serially: Serially
  /** What operations of this process are making in `incoming`: it is no leftover. */
  readonly underWay: Set<string>
  /** Tops that this process made and has told nobody how to mount: the kernel need not be asked about them. */
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
  /** Whether the call ends when what it threw away is deleted, and not only out of the way. Default: true. */
  readonly wait?: boolean
}
