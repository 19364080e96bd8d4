/**
 * A benchmark: `bench/benchmarks/NAME.ts` with this as its default export. It compares what Berth
 * does with the alternative that a user would otherwise have.
 */
export interface Benchmark<Fixture> {
  /** What is measured, for a person: "berth --help / node -e 0". */
  readonly what: string
  readonly unit: "ms" | "s" | "bytes" | "MB" | "count" | "per second"
  readonly bound: Bound
  /** How often each side runs; the sides take turns. At least MIN_RUNS. */
  readonly runs: number
  /** The figure taken from all samples of a side. A p99 needs at least MIN_P99_SAMPLES of them. */
  readonly statistic: "median" | "p99"
  /** After this long the benchmark is given up; DEFAULT_DEADLINE_MS unless said. */
  readonly deadlineMs?: number
  /** Makes what both sides need, once. Throws CannotRun where this host lacks something. */
  readonly prepare: (context: Context) => Promise<Fixture>
  /** One run of each side: its sample or samples, in the unit. */
  readonly ours: Side<Fixture>
  /** Absent where the bound is on ours alone. */
  readonly other?: Side<Fixture>
  /** What else a reader of the result should know, such as a figure to compare with. */
  readonly note?: (fixture: Fixture) => string
}

export type Side<Fixture> = (fixture: Fixture, signal: AbortSignal) => Promise<Samples>

export type Samples = number | readonly number[]

/** The figure that must hold, and its limit. */
export type Bound = { readonly of: Figure } & (
  | { readonly atMost: number }
  | { readonly atLeast: number }
)

/** `ratio` is ours / other, `difference` is ours − other, `ours` is ours alone. */
export type Figure = "ratio" | "difference" | "ours"

export interface Context {
  /** Aborts on Ctrl-C and at the deadline. */
  readonly signal: AbortSignal
  /** Runs when the benchmark ends, however it ends; the last one added runs first. At once if it has ended. */
  readonly onEnd: (cleanUp: () => unknown) => void
}

/** Fewer than these say nothing about a busy machine. */
export const MIN_RUNS = 7
export const MIN_P99_SAMPLES = 200

/** Long enough for the slowest of them, short enough that a hang is noticed. */
export const DEFAULT_DEADLINE_MS = 10 * 60_000

/** Lets the compiler infer what `prepare` makes. */
export const benchmark = <Fixture>(definition: Benchmark<Fixture>): Benchmark<Fixture> => definition

/** This host lacks what the benchmark needs. The message says what. */
export class CannotRun extends Error {
  override readonly name = "CannotRun"
}
