import { appendFileSync, readFileSync } from "node:fs"

/** The variable with the file in which the workers of a run, each its own process, note their samples. */
export const SAMPLES = "BERTH_TEST_SAMPLES"

export interface Sample {
  readonly what: string
  readonly taken: number
  readonly of: number
  /** Whether the seed decides which items are taken. */
  readonly isDrawn?: boolean
}

/** Notes how much of something a suite takes, for the report of the run, if there is one. */
export const noteSample = (sample: Sample): void => {
  const file = process.env[SAMPLES]
  // Short appends of several processes do not mix.
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(sample)}\n`)
}

/** The samples that left something out, summed up by subject, in the order of names. */
export const readSamples = (file: string): readonly Sample[] => {
  const sums = new Map<string, Sample>()
  for (const line of readFileSync(file, "utf8").split("\n")) {
    if (line === "") continue
    const sample = JSON.parse(line) as Sample
    const sum = sums.get(sample.what)
    sums.set(sample.what, {
      ...sample,
      taken: sample.taken + (sum?.taken ?? 0),
      of: sample.of + (sum?.of ?? 0),
    })
  }
  return [...sums.values()]
    .filter(({ taken, of }) => taken < of)
    .toSorted((one, two) => one.what.localeCompare(two.what))
}
