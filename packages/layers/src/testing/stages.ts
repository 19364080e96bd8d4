import { newId } from "@berth/protocol/ids"
import { expect } from "vitest"
import type { Layers } from "../layers.ts"
import { AGENT } from "./ids.ts"
import { key } from "./key.ts"
import { inMount } from "./mount.ts"
import { openForTest } from "./store.ts"

const shop = key("shop")

/**
 * Runs each script on a new top, which is then frozen: so a script finds the files of the one before in a lower layer.
 * Returns the outputs. Some tools lie where only the host's root can read them; their effects on files are the same.
 */
export const inStages = async (stages: readonly string[], owner?: number): Promise<string[]> => {
  const layers = await openForTest()
  await layers.put(shop, null)
  const said: string[] = []
  for (const stage of stages) said.push(await run(layers, stage, owner))
  expect(await layers.verify()).toMatchObject({ problems: [] })
  return said
}

const run = async (layers: Layers, script: string, owner?: number): Promise<string> => {
  await layers.ensureTop(shop, AGENT)
  const sandbox = newId.sandbox()
  const { top, mount } = await layers.claimTop(shop, sandbox)
  const said = await inMount(mount, script, owner)
  await layers.releaseTop(top, sandbox)
  await layers.freeze(shop)
  return said
}
