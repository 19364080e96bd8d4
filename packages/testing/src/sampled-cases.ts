import { it } from "vitest"
import { sampled } from "./sampled.ts"

type AddCase = (title: string, work: () => Promise<void>, deadlineMs?: number) => void

/**
 * Registers so many of the cases that a suite adds, drawn by the run's seed. A whole run leaves none out. The report says how many of how
 * many ran.
 */
export const sampledCases = (what: string, count: number, addAll: (add: AddCase) => void): void => {
  const cases: Parameters<AddCase>[] = []
  addAll((...each) => void cases.push(each))
  for (const each of sampled(what, cases, count)) it(...each)
}
