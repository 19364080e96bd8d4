import type { Benchmark, Samples } from "./benchmark.ts"

export interface Measured {
  readonly ours: readonly number[]
  readonly other: readonly number[]
}

/**
 * Runs both sides in turn and collects their samples. Each side goes first in every second run, so that neither always
 * inherits the other's warm caches. The first run of each is not counted.
 */
export async function measure<Fixture>(
  { ours, other, runs }: Pick<Benchmark<Fixture>, "ours" | "other" | "runs">,
  fixture: Fixture,
  { signal, onRun }: { signal: AbortSignal; onRun?: ((run: number) => void) | undefined },
): Promise<Measured> {
  const samples = { ours: [] as number[], other: [] as number[] }
  const sides = [
    { run: ours, into: samples.ours },
    ...(other === undefined ? [] : [{ run: other, into: samples.other }]),
  ]

  for (const side of sides) await abortable(side.run(fixture, signal), signal)
  for (let run = 0; run < runs; run++) {
    for (const side of run % 2 === 0 ? sides : sides.toReversed())
      side.into.push(...asList(await abortable(side.run(fixture, signal), signal)))
    onRun?.(run + 1)
  }
  return samples
}

/** Settles like `work`, or rejects when the signal fires, for a side that ignores the signal. */
export function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const onAbort = () => reject(signal.reason)
  signal.addEventListener("abort", onAbort, { once: true })
  if (signal.aborted) onAbort()
  work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort))
  return promise
}

const asList = (samples: Samples): readonly number[] =>
  typeof samples === "number" ? [samples] : samples

/** Measures the duration of some work, in milliseconds. */
export async function timeMs(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await work()
  return performance.now() - start
}
