import { expect } from "vitest"
import { seeded } from "../bridge/seeded.ts"
import { Conversation } from "./conversation.ts"
import type { Mishap } from "./mishaps.ts"
import type { World } from "./world.ts"

/** A boot on a busy machine, and what is tried again before it. */
export const ROUND_MS = 60_000

export interface Rounds {
  readonly count: number
  readonly seed: number
  readonly mishaps: Readonly<Record<string, Mishap>>
}

/** Prompts through so many mishaps: whatever ended, all that was accepted has a known end. */
export const liveThrough = async (
  world: World,
  { count, seed, mishaps }: Rounds,
): Promise<void> => {
  const random = seeded(seed)
  const conversation = new Conversation(world, random)
  await conversation.open()
  try {
    const all = Object.entries(mishaps)
    for (let round = 1; round <= count; round += 1) {
      const [name, mishap] = all[Math.floor(random() * all.length)] as [string, Mishap]
      await conversation.round(mishap).catch((thrown: unknown) => {
        throw new Error(`round ${round}, ${name}`, { cause: thrown })
      })
    }
    await conversation.check()
  } finally {
    conversation.close()
  }
  await expect
    .poll(async () => (await world.client().sandboxes.list()).flatMap(({ leases }) => leases))
    .toEqual([])
}
