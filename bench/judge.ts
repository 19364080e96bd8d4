import { type Benchmark, type Bound, MIN_P99_SAMPLES } from "./benchmark.ts"
import type { Measured } from "./measure.ts"
import { median, percentile } from "./statistics.ts"

/** An entry of the output of `--json`. */
export interface Result {
  readonly name: string
  /** The statistic of each side, in the unit; null if it was not measured. */
  readonly ours: number | null
  readonly other: number | null
  readonly unit: string
  /** The bounded figure, whichever that is; the note says. */
  readonly ratio: number | null
  readonly limit: number
  readonly holds: boolean
  readonly runs: number
  readonly note: string
}

type Judged = Pick<Benchmark<never>, "unit" | "bound" | "runs" | "statistic">

/** Judges whether the samples keep the bound. */
export function judge(name: string, benchmark: Judged, { ours, other }: Measured): Result {
  const { statistic, bound, unit, runs } = benchmark
  const compared = bound.of === "ours" ? [ours] : [ours, other]
  const least = Math.min(...compared.map((samples) => samples.length))
  if (least === 0 || (statistic === "p99" && least < MIN_P99_SAMPLES))
    return failed(name, benchmark, `${least} samples are too few for a ${statistic}`)

  const figure = (samples: readonly number[]) =>
    statistic === "median" ? median(samples) : percentile(samples, 99)
  const oursFigure = figure(ours)
  const otherFigure = other.length === 0 ? null : figure(other)
  const value = bounded(bound, oursFigure, otherFigure ?? Number.NaN)
  return {
    name,
    ours: rounded(oursFigure),
    other: otherFigure === null ? null : rounded(otherFigure),
    unit,
    ratio: rounded(value),
    limit: limitOf(bound),
    holds: "atMost" in bound ? value <= bound.atMost : value >= bound.atLeast,
    runs,
    note: sayBound(benchmark),
  }
}

/** The entry of a benchmark without figures. */
export const failed = (name: string, { unit, bound, runs }: Judged, note: string): Result => ({
  name,
  ours: null,
  other: null,
  unit,
  ratio: null,
  limit: limitOf(bound),
  holds: false,
  runs,
  note,
})

function bounded({ of }: Bound, ours: number, other: number): number {
  if (of === "ratio") return ours / other
  return of === "difference" ? ours - other : ours
}

const limitOf = (bound: Bound) => ("atMost" in bound ? bound.atMost : bound.atLeast)

/** Describes the bound: `median of ours / median of other, at most 2.5` */
function sayBound({ bound, statistic, unit }: Judged): string {
  const [ours, other] = [`${statistic} of ours`, `${statistic} of other`]
  const figure = { ratio: `${ours} / ${other}`, difference: `${ours} − ${other}`, ours }[bound.of]
  const direction = "atMost" in bound ? "at most" : "at least"
  return `${figure}, ${direction} ${limitOf(bound)}${bound.of === "ratio" ? "" : ` ${unit}`}`
}

/** Rounds to microseconds; finer differences are noise. */
const rounded = (value: number) => Math.round(value * 1000) / 1000
