import type { ToolboxManifest } from "@berth/protocol/toolbox"
import type { ToolboxInput } from "./input.ts"

/** Where the inputs are found. */
export interface InputSource {
  readonly arch: ToolboxManifest["arch"]
  /** A directory of Berth: packages are found from here as Node finds them. */
  readonly from: string
  /** Where programs of the host are found, as in $PATH. */
  readonly path: string
  readonly signal: AbortSignal
}

/** Finds what one entry is made from. */
export type FindInput = (source: InputSource) => Promise<ToolboxInput>
