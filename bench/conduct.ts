import { type Benchmark, CannotRun, DEFAULT_DEADLINE_MS, MIN_RUNS } from "./benchmark.ts"
import { Ends } from "./ends.ts"
import { failed, judge, type Result } from "./judge.ts"
import { abortable, measure } from "./measure.ts"
import { messageOf } from "./message.ts"

export interface Watch {
  readonly signal: AbortSignal
  readonly onRun?: ((run: number) => void) | undefined
}

/**
 * Runs one benchmark from its preparation to its last clean-up. A failure becomes a result with a note, so that the
 * others still run. Only a cancellation is thrown.
 */
export async function conduct(
  name: string,
  benchmark: Benchmark<unknown>,
  { signal, onRun }: Watch,
): Promise<Result> {
  const { runs, bound, other, prepare, note, deadlineMs = DEFAULT_DEADLINE_MS } = benchmark
  if (runs < MIN_RUNS) return failed(name, benchmark, `${runs} runs are too few: ${MIN_RUNS}`)
  if (other === undefined && bound.of !== "ours")
    return failed(name, benchmark, `a bound on the ${bound.of} needs the other side`)

  const ends = new Ends()
  const deadline = new AbortController()
  // Keeps the process alive, unlike AbortSignal.timeout: a side that waits for nothing must be noticed.
  const timer = setTimeout(() => deadline.abort(new Error("deadline")), deadlineMs)
  const limited = AbortSignal.any([signal, deadline.signal])
  let result: Result
  try {
    const context = { signal: limited, onEnd: ends.add }
    const fixture = await abortable(prepare(context), limited)
    const measured = await measure(benchmark, fixture, { signal: limited, onRun })
    result = judge(name, benchmark, measured)
    if (note !== undefined) result = { ...result, note: `${result.note}; ${note(fixture)}` }
  } catch (error) {
    result = failed(name, benchmark, explain(error, { limited, deadlineMs }))
  } finally {
    clearTimeout(timer)
  }
  const problems = await ends.run()
  signal.throwIfAborted()
  return problems.length === 0 ? result : { ...result, note: [result.note, ...problems].join("; ") }
}

function explain(
  error: unknown,
  { limited, deadlineMs }: { limited: AbortSignal; deadlineMs: number },
): string {
  if (limited.aborted) return `did not end within ${deadlineMs} ms`
  return `${error instanceof CannotRun ? "cannot run here" : "failed"}: ${messageOf(error)}`
}
