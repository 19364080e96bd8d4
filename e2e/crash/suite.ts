import { sampled } from "@berth/testing/sampled"
import { seededFor } from "@berth/testing/seed"
import { it, onTestFailed } from "vitest"
import { chosenRounds, WANTED } from "./chosen.ts"
import { Conversation } from "./conversation.ts"
import type { Mishap } from "./mishaps.ts"
import { roundsWith, Story } from "./rounds.ts"
import type { World } from "./world.ts"

/** Covers a boot on a busy machine, the attempts before it, and a look at the host. */
const ROUND_MS = 120_000

/** A mishap that finds no sandbox to strike is tried again. On a busy machine most may come too late. */
const MAX_TRIES = 30

export interface CrashSuite {
  readonly backend: string
  readonly world: () => World
  /** The mishaps by their names. */
  readonly mishaps: Readonly<Record<string, Mishap>>
  /** Steps that only this backend takes to remove a sandbox. */
  readonly removal?: readonly string[]
  /** The numbers of rounds in a run that leaves most out. */
  readonly few: { readonly steps: number; readonly mishaps: number }
  /** The number of kinds of rounds in such a run. */
  readonly fewKinds?: number
  /** Registers the test of a kind of round that only this backend has. */
  readonly further?: () => void
}

export const crashSuite = ({
  backend,
  world,
  mishaps,
  removal = [],
  few,
  fewKinds = 2,
  further,
}: CrashSuite): void => {
  const addSteps = () => {
    const steps = chosenRounds(
      `crash points of a server, ${backend}`,
      roundsWith(removal),
      few.steps,
    )
    it(
      `[R1.6] [R1.9] a server that is killed at ${steps.length} steps of its work on sandboxes loses no file, removes no sandbox in use, and leaves the host as it was`,
      async () => {
        onTestFailed(() => console.error(world().log().join("\n")))
        const story = new Story(world())
        await story.open()
        for (const [round, { flow, step }] of steps.entries())
          await story.round(flow, step).catch((thrown: unknown) => {
            throw new Error(`round ${round + 1}, ${flow} at ${step}`, { cause: thrown })
          })
        await story.close()
      },
      (1 + steps.length) * ROUND_MS,
    )
  }

  const addMishaps = () => {
    const names = chosenRounds(
      `mishaps during prompts, ${backend}`,
      Object.keys(mishaps),
      few.mishaps,
    )
    it(
      `[R1.9] [R3.2] [R3.4] no prompt and no event is lost or repeated in ${names.length} mishaps, and the host is left as it was`,
      async () => {
        onTestFailed(() => console.error(world().log().join("\n")))
        const conversation = new Conversation(world(), seededFor("prompts and when mishaps come"))
        await conversation.open()
        try {
          for (const [round, name] of names.entries())
            await strike(conversation, mishaps[name] as Mishap).catch((thrown: unknown) => {
              throw new Error(`round ${round + 1}, ${name}`, { cause: thrown })
            })
          await conversation.check()
        } finally {
          conversation.close()
        }
      },
      (1 + names.length) * ROUND_MS,
    )
  }

  // The rounds of a kind that is not drawn are not drawn either, or the report would count them.
  const kinds = [addSteps, addMishaps, ...(further === undefined ? [] : [further])]
  const count = WANTED === undefined ? fewKinds : kinds.length
  for (const add of sampled(`kinds of crash rounds, ${backend}`, kinds, count)) add()
}

/** A round counts only if the mishap struck something. */
const strike = async (conversation: Conversation, mishap: Mishap): Promise<void> => {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) if (await conversation.round(mishap)) return
  throw new Error(`it struck nothing in ${MAX_TRIES} rounds`)
}
