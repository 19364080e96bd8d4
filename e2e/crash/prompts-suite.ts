import { seededFor } from "@berth/testing/seed"
import { expect } from "vitest"
import { Conversation } from "./conversation.ts"
import type { Mishap } from "./mishaps.ts"
import type { World } from "./world.ts"

/** A boot on a busy machine, and what is tried again before it. */
export const ROUND_MS = 60_000

export interface Rounds {
  /** Names of mishaps, one a round. */
  readonly chosen: readonly string[]
  readonly mishaps: Readonly<Record<string, Mishap>>
}

/** Prompts through the chosen mishaps: whatever ended, all that was accepted has a known end. */
export const liveThrough = async (world: World, { chosen, mishaps }: Rounds): Promise<void> => {
  const random = seededFor("prompts and when mishaps come")
  const conversation = new Conversation(world, random)
  await conversation.open()
  try {
    for (const [round, name] of chosen.entries()) {
      await conversation.round(mishaps[name] as Mishap).catch((thrown: unknown) => {
        throw new Error(`round ${round + 1}, ${name}`, { cause: thrown })
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
