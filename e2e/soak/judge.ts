/** A measure, and its allowed growth in an hour. */
export interface Measure {
  readonly name: string
  readonly unit: string
  readonly maxPerHour: number
  /** Growth in a short life that proves nothing, such as a heap that is not collected yet. */
  readonly shortSlack: number
}

export interface Sample {
  readonly atMs: number
  readonly value: number
}

export interface Growth {
  readonly from: number
  readonly to: number
  readonly perHour: number
  /** Whether that is more than may come in an hour, and more than chance. */
  readonly isTooMuch: boolean
}

/** A life that is watched for less after its warm-up is short. */
export const SHORT_MS = 15 * 60_000

const HOUR_MS = 3_600_000

/** A life needs this many samples in each third to be judged. */
const MIN_SAMPLES = 3

/**
 * Growth of one measure over one life, without its warm-up: from the middle of the first third to the middle of the last.
 * Undefined if the life was too short for a judgement.
 */
export const growthOf = (
  { maxPerHour, shortSlack }: Measure,
  samples: readonly Sample[],
  warmUpMs: number,
): Growth | undefined => {
  const beganMs = samples[0]?.atMs ?? 0
  const warm = samples.filter(({ atMs }) => atMs - beganMs >= warmUpMs)
  const third = Math.floor(warm.length / 3)
  if (third < MIN_SAMPLES) return undefined
  const [first, last] = [warm.slice(0, third), warm.slice(-third)]
  const watchedMs = (warm.at(-1)?.atMs ?? 0) - (warm[0]?.atMs ?? 0)
  const betweenMs = middle(timesOf(last)) - middle(timesOf(first))
  const [from, to] = [middle(valuesOf(first)), middle(valuesOf(last))]
  const perHour = ((to - from) * HOUR_MS) / betweenMs
  const chance = Math.max(
    spread(valuesOf(first)),
    spread(valuesOf(last)),
    watchedMs < SHORT_MS ? shortSlack : 0,
  )
  return { from, to, perHour, isTooMuch: perHour > maxPerHour && to - from > chance }
}

/** Says which measure grew too much, and by how much. */
export const complaintOf = (
  { name, unit, maxPerHour }: Measure,
  { from, to, perHour }: Growth,
): string =>
  `${name} grew by ${rounded(perHour)} ${unit} per hour, from ${rounded(from)} to ${rounded(to)}: at most ${maxPerHour} may come`

/** The length of each server's life: half an hour in a run that has time for two such lives, else half of the run. */
export const lifeOf = (runMs: number): { lifeMs: number; warmUpMs: number } => {
  const lifeMs = Math.min(HOUR_MS / 2, runMs / 2)
  return { lifeMs, warmUpMs: lifeMs / 4 }
}

const timesOf = (samples: readonly Sample[]): number[] => samples.map(({ atMs }) => atMs)
const valuesOf = (samples: readonly Sample[]): number[] => samples.map(({ value }) => value)

const at = (sorted: readonly number[], part: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0

const middle = (values: readonly number[]): number => at(sortedOf(values), 0.5)

/** The distance between the first and the last quarter of the values. */
const spread = (values: readonly number[]): number => {
  const sorted = sortedOf(values)
  return at(sorted, 0.75) - at(sorted, 0.25)
}

const sortedOf = (values: readonly number[]): number[] =>
  values.toSorted((one, other) => one - other)

const rounded = (value: number): number => Math.round(value * 10) / 10
