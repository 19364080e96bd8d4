import { describe, it } from "vitest"
import { type Drawers, isWholeRun, sampled } from "./sampled.ts"

export type AddCase = (title: string, work: () => Promise<void>, deadlineMs?: number) => void
export type AddGroup = (title: string, addAll: () => void) => void

/**
 * Registers that many of the cases that a suite adds, drawn by the run's seed. A whole run, or a suite without a
 * count, takes all. Suites that draw together, which add the same cases, take so many between them. The report says how many of how many
 * ran.
 */
export const sampledCases = (
  what: string,
  count: number | undefined,
  addAll: (add: AddCase, group: AddGroup) => void,
  drawers?: Drawers,
): void => {
  if (count === undefined || isWholeRun) {
    addAll(it, describe)
    return
  }
  const cases: Parameters<AddCase>[] = []
  const groups: string[] = []
  addAll(
    (title, ...rest) => void cases.push([[...groups, title].join(" > "), ...rest]),
    (title, addGrouped) => {
      groups.push(title)
      addGrouped()
      groups.pop()
    },
  )
  for (const each of sampled(what, cases, count, drawers)) it(...each)
}
