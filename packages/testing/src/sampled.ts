import { noteSample } from "./samples.ts"
import { seededFor } from "./seed.ts"

/** Whether this run leaves nothing out, as `npm run test:all` asks for. */
export const isWholeRun = process.env.BERTH_TEST_ALL !== undefined

/** A size that is enough to see that something holds; in a whole run, the full size. The report says which. */
export const sized = (what: string, { few, all }: { few: number; all: number }): number => {
  const taken = isWholeRun ? all : few
  noteSample({ what, taken, of: all })
  return taken
}

/**
 * Takes the items that always matter; in a whole run, or where `inPart` is false, all. The report says how many of how
 * many.
 */
export const mattering = <Item>(
  what: string,
  all: readonly Item[],
  { inPart, matters }: { readonly inPart: boolean; readonly matters: (item: Item) => boolean },
): readonly Item[] => {
  const taken = inPart && !isWholeRun ? all.filter(matters) : all
  noteSample({ what, taken: taken.length, of: all.length })
  return taken
}

/**
 * Draws that many items by the run's seed, in their order; in a whole run, takes all. The report says how many of how
 * many.
 */
export const sampled = <Item>(
  what: string,
  all: readonly Item[],
  count: number,
): readonly Item[] => {
  const taken = isWholeRun || all.length <= count ? all : draw(all, count, seededFor(what))
  noteSample({ what, taken: taken.length, of: all.length, isDrawn: true })
  return taken
}

const draw = <Item>(all: readonly Item[], count: number, random: () => number): readonly Item[] => {
  const left = all.map((_, place) => place)
  const places = Array.from({ length: count }, () =>
    left.splice(Math.floor(random() * left.length), 1),
  )
  return places
    .flat()
    .sort((one, two) => one - two)
    .map((place) => all[place] as Item)
}

/** Whether the seed draws this item of all, where each asks for itself. In a whole run, each is drawn. */
export const isDrawnOf = <Item extends string>(
  what: string,
  all: readonly Item[],
  one: Item,
): boolean => {
  const isTaken = isWholeRun || all[Math.floor(seededFor(what)() * all.length)] === one
  noteSample({ what, taken: isTaken ? 1 : 0, of: 1, isDrawn: true })
  return isTaken
}
