import type { LayerId } from "@berth/protocol/ids"
import type { LayerFlavour } from "@berth/protocol/layer"
import type { Layout } from "./layout.ts"
import type { Serially } from "./serial.ts"

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
  /** Layers that operations of this process read. */
  readonly reading: Map<symbol, readonly LayerId[]>
}

export const STORE = "store"

export interface Call {
  readonly signal?: AbortSignal
}
