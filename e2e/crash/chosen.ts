import { sampled } from "@berth/testing/sampled"
import { seededFor } from "@berth/testing/seed"

/**
 * The number of rounds that `npm run test:crash` asks for. Unset, each suite takes a few, or in a whole run each round
 * once.
 */
export const WANTED = process.env.BERTH_CRASH_ROUNDS

/** Chooses the rounds of a suite. `share` is the part of the wanted number that the suite takes. */
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
