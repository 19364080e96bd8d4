import type { ToolboxManifest } from "@berth/protocol/toolbox"
import type { ToolboxInput } from "./input.ts"

/** The places in which the inputs are found. */
export interface InputSource {
  readonly arch: ToolboxManifest["arch"]
  /** A directory of Berth: packages are found from here as Node finds them. */
  readonly from: string
  /** The search path for programs of the host, as in $PATH. */
  readonly path: string
  readonly signal: AbortSignal
}

/** Finds the sources of one entry. */
export type FindInput = (source: InputSource) => Promise<ToolboxInput>
