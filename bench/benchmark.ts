/**
 * A benchmark: the default export of `bench/benchmarks/NAME.ts`. It compares Berth with the alternative that a user
 * would otherwise have.
 */
export interface Benchmark<Fixture> {
  /** Describes the comparison for a person: "berth --help / node -e 0". */
  readonly what: string
  readonly unit: "ms" | "s" | "bytes" | "MB" | "count" | "per second"
  readonly bound: Bound
  /** The number of runs of each side, which take turns. At least MIN_RUNS. */
  readonly runs: number
  /** The figure taken from all samples of a side. A p99 needs at least MIN_P99_SAMPLES of them. */
  readonly statistic: "median" | "p99"
  /** Time limit of the whole benchmark. Default: DEFAULT_DEADLINE_MS. */
  readonly deadlineMs?: number
  /** Makes what both sides need, once. Throws CannotRun if this host lacks something. */
  readonly prepare: (context: Context) => Promise<Fixture>
  /** Runs one side once, and returns its sample or samples, in the unit. */
  readonly ours: Side<Fixture>
  /** Absent if the bound is on ours alone. */
  readonly other?: Side<Fixture>
  /** Further information for readers of the result, such as a figure to compare with. */
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
  /**
   * Adds a clean-up for the benchmark's end, however it ends. The last one added runs first. Runs at once if it has
   * ended.
   */
  readonly onEnd: (cleanUp: () => unknown) => void
}

/** Minimum numbers of runs and samples. Fewer say nothing about a busy machine. */
export const MIN_RUNS = 7
export const MIN_P99_SAMPLES = 200

/** Long enough for the slowest benchmark, short enough that a hang is noticed. */
export const DEFAULT_DEADLINE_MS = 10 * 60_000

/** Lets the compiler infer what `prepare` makes. */
export const benchmark = <Fixture>(definition: Benchmark<Fixture>): Benchmark<Fixture> => definition

/** Thrown if the host lacks what the benchmark needs. The message says what. */
export class CannotRun extends Error {
  override readonly name = "CannotRun"
}
