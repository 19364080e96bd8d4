import { it } from "vitest"
import { mattering } from "./sampled.ts"

/**
 * Registers cases that a partial run of a suite leaves out: for a second backend, say, on which they prove little more.
 * A whole run leaves none out. The report says how many of how many ran.
 */
export const furtherCases =
  (what: string, { inPart }: { readonly inPart: boolean }) =>
  (title: string, work: () => Promise<void>, deadlineMs?: number): void => {
    for (const each of mattering(what, [title], { inPart, matters: () => false }))
      it(each, work, deadlineMs)
  }
