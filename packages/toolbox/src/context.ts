import type { ToolboxManifest } from "@berth/protocol/toolbox"
import type { Layout } from "./layout.ts"

/** The parts that every operation on the toolboxes of one root shares. */
export interface Context {
  readonly layout: Layout
  readonly arch: ToolboxManifest["arch"]
  /** Called with every step after which a crash must do no harm. */
  at(step: string): void | Promise<void>
}

export interface Call {
  readonly signal: AbortSignal
}
