import { noteLeftOut } from "./left-out.ts"
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
  const isPart = inPart && !isWholeRun
  const taken = isPart ? all.filter(matters) : all
  noteSample({ what, taken: taken.length, of: all.length })
  if (isPart && taken.length === 0) noteLeftOut()
  return taken
}

/** Suites that draw from the same items together, as those of two backends do, and the one that asks. */
export interface Drawers {
  readonly among: readonly string[]
  readonly by: string
}

/**
 * Draws that many items by the run's seed, in their order; in a whole run, takes all. Suites that draw together take so many
 * between them: each asks for itself, and gets its own. The report says how many of how many.
 */
export const sampled = <Item>(
  what: string,
  all: readonly Item[],
  count: number,
  { among, by }: Drawers = ALONE,
): readonly Item[] => {
  const everyones = among.flatMap((name) => all.map((item) => ({ name, item })))
  const isAll = isWholeRun || everyones.length <= count
  const taken = isAll ? everyones : draw(everyones, count, seededFor(what))
  const own = taken.filter(({ name }) => name === by).map(({ item }) => item)
  noteSample({ what, taken: own.length, of: all.length, isDrawn: true })
  if (own.length === 0 && !isAll) noteLeftOut()
  return own
}

const ALONE: Drawers = { among: [""], by: "" }

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

/** Whether the seed draws this suite of all, where each asks for itself. In a whole run, each is drawn. */
export const isDrawnOf = <Name extends string>(
  what: string,
  among: readonly Name[],
  by: Name,
): boolean => sampled(what, [by], 1, { among, by }).length > 0
