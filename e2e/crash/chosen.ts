import { sampled } from "@berth/testing/sampled"
import { seededFor } from "@berth/testing/seed"

/** How many rounds `npm run test:crash` asks for; unset, each suite takes a few, or in a whole run each round once. */
export const WANTED = process.env.BERTH_CRASH_ROUNDS

/** The rounds of a suite. `share`: the part of the wanted number that it takes. */
export const chosenRounds = <Round>(
  what: string,
  all: readonly Round[],
  few: number,
  { share = 1 }: { readonly share?: number } = {},
): readonly Round[] => {
  if (WANTED === undefined) return sampled(what, all, few)
  const random = seededFor(what)
  return Array.from(
    { length: Math.ceil(Number(WANTED) * share) },
    () => all[Math.floor(random() * all.length)] as Round,
  )
}
