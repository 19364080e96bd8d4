import { join } from "node:path"
import { LayerId, PinId, Slug, TopId } from "@berth/protocol/ids"
import type { StackKey } from "@berth/protocol/layer"
import { namesIn } from "../io/names-in.ts"
import type { Context } from "./context.ts"

const RECORD_ENDING = ".json"

export const everyLayer = async ({ layout }: Context): Promise<LayerId[]> =>
  (await namesIn(layout.layers)).filter((name) => LayerId.safeParse(name).success) as LayerId[]

export const everyTop = async ({ layout }: Context): Promise<TopId[]> =>
  (await namesIn(layout.tops)).filter((name) => TopId.safeParse(name).success) as TopId[]

export const everyPin = async ({ layout }: Context): Promise<PinId[]> =>
  (await recordsIn(layout.pins)).filter((name) => PinId.safeParse(name).success) as PinId[]

export const everyStack = async ({ layout }: Context): Promise<StackKey[]> => {
  const stacks: StackKey[] = []
  for (const directory of await namesIn(layout.stacks)) {
    const workspace = Slug.safeParse(directory)
    if (!workspace.success) continue
    for (const file of await recordsIn(join(layout.stacks, directory))) {
      const name = Slug.safeParse(file)
      if (name.success) stacks.push({ workspace: workspace.data, name: name.data })
    }
  }
  return stacks
}

const recordsIn = async (directory: string): Promise<string[]> =>
  (await namesIn(directory))
    .filter((name) => name.endsWith(RECORD_ENDING))
    .map((name) => name.slice(0, -RECORD_ENDING.length))
