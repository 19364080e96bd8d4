import { describe, it } from "vitest"
import { isWholeRun, sampled } from "./sampled.ts"
import { noteSample } from "./samples.ts"
import { seededFor } from "./seed.ts"

type AddCase = (title: string, work: () => Promise<void>, deadlineMs?: number) => void

export interface Cases {
  readonly it: AddCase
  readonly describe: (title: string, body: () => void) => void
}

/**
 * Registers so many drawn cases of a suite, for a twin of what another run of the suite shows in full. A whole run, or one without a
 * count, takes all. The report says how many of how many ran.
 */
export const drawnCases = (
  what: string,
  count: number | undefined,
  suite: (cases: Cases) => void,
): void => {
  if (count === undefined || isWholeRun) {
    suite({ it, describe })
    return
  }
  const cases: Parameters<AddCase>[] = []
  const groups: string[] = []
  suite({
    it: (title, ...rest) => void cases.push([[...groups, title].join(" > "), ...rest]),
    describe(title, body) {
      groups.push(title)
      body()
      groups.pop()
    },
  })
  for (const each of sampled(what, cases, count)) it(...each)
}

/** Whether this one is the one that is drawn of all, each of which asks for itself. In a whole run, each is. */
export const isDrawnOf = <Item extends string>(
  what: string,
  all: readonly Item[],
  one: Item,
): boolean => {
  const drawn = all[Math.floor(seededFor(what)() * all.length)]
  const isTaken = isWholeRun || drawn === one
  noteSample({ what, taken: isTaken ? 1 : 0, of: 1, isDrawn: true })
  return isTaken
}
