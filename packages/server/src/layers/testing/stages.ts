import { newId } from "@berth/protocol/ids"
import { expect } from "vitest"
import type { Layers } from "../layers.ts"
import { AGENT } from "./ids.ts"
import { key } from "./key.ts"
import { inMount } from "./mount.ts"
import { openForTest } from "./store.ts"

const shop = key("shop")

/**
 * Runs each script on a new top, which is then frozen: it finds what the one before made in a lower layer. What each
 * one said is returned. Some tools are where only the host's root can read them; what they do to files is the
 * same.
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
