import { requires } from "@berth/testing/requires"
import { afterAll, beforeAll, expect, it } from "vitest"
import { seeded } from "../bridge/seeded.ts"
import { Conversation } from "./conversation.ts"
import { MISHAPS } from "./mishaps.ts"
import { openWorld, type World } from "./world.ts"

/** `npm run test:crash` runs hundreds. */
const COUNT = Number(process.env.BERTH_CRASH_ROUNDS ?? 4)
const SEED = Number(process.env.BERTH_CRASH_SEED ?? 20_261_116)
const ROUND_MS = 60_000

requires("root", "crunOrRunc", "conmon", "tini", "userNamespaces").describe(
  "prompts, whatever ends while they run",
  () => {
    let world: World
    beforeAll(async () => {
      world = await openWorld(AbortSignal.timeout(60_000))
    }, 60_000)
    afterAll(() => world.close(), 60_000)

    it(
      `[R1.9] [R3.2] [R3.4] are neither lost nor run twice, and neither is an event (${COUNT} times, seed ${SEED})`,
      async ({ onTestFailed }) => {
        onTestFailed(() => console.error(world.log().join("\n")))
        const random = seeded(SEED)
        const conversation = new Conversation(world, random)
        await conversation.open()
        const names = Object.keys(MISHAPS)
        for (let count = 0; count < COUNT; count += 1) {
          const name = names[Math.floor(random() * names.length)] ?? ""
          await conversation.round(MISHAPS[name] as (typeof MISHAPS)[string]).catch((thrown) => {
            throw new Error(`round ${count + 1}, ${name}`, { cause: thrown })
          })
        }
        await conversation.check()
        conversation.close()
        const [sandbox] = await world.client().sandboxes.list()
        expect(sandbox?.leases).toEqual([])
      },
      COUNT * ROUND_MS,
    )
  },
)
