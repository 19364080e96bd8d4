import { fileURLToPath } from "node:url"
import { currentInputs } from "@berth/toolbox/inputs/current"
import { node } from "@berth/toolbox/inputs/node"
import { pty } from "@berth/toolbox/inputs/pty"
import type { FindInput, InputSource } from "@berth/toolbox/inputs/source"
import { supervisor } from "@berth/toolbox/inputs/supervisor"
import { tini } from "@berth/toolbox/inputs/tini"
import { openToolboxes } from "@berth/toolbox/store"
import { sharedStore, type ToolboxKind } from "./shared.ts"

const FROM = fileURLToPath(new URL("../..", import.meta.url))
const SMALL: readonly FindInput[] = [node, tini, pty, supervisor]

const INPUTS = {
  small: (source: InputSource) => Promise.all(SMALL.map((find) => find(source))),
  whole: currentInputs,
}

/**
 * Builds the toolbox that the tests of a run share, unless another test has. Outside of a run, it has a store of its
 * own.
 */
export const buildToolbox = async (kind: ToolboxKind, own: string, signal: AbortSignal) => {
  const arch = process.arch as "x64" | "arm64"
  const inputs = await INPUTS[kind]({ arch, from: FROM, path: process.env.PATH ?? "", signal })
  return await openToolboxes({ root: sharedStore(kind) ?? own, arch }).build(inputs, { signal })
}
