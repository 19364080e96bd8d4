import { it } from "vitest"
import { mattering } from "./sampled.ts"

/**
 * Registers cases that a suite leaves out where it is run in part: for a second backend, on which they prove little more, say. A
 * whole run leaves none out. The report says how many of how many ran.
 */
export const furtherCases =
  (what: string, { inPart }: { readonly inPart: boolean }) =>
  (title: string, work: () => Promise<void>, deadlineMs?: number): void => {
    for (const each of mattering(what, [title], { inPart, matters: () => false }))
      it(each, work, deadlineMs)
  }
