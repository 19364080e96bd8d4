import type { Benchmark } from "./benchmark.ts"
import { conduct } from "./conduct.ts"
import { listBenchmarks, loadBenchmark } from "./discover.ts"
import { failed, type Result } from "./judge.ts"
import { describeMachine } from "./machine.ts"
import { messageOf } from "./message.ts"
import { type Options, parseOptions, USAGE } from "./options.ts"
import { renderTable } from "./table.ts"

export interface Environment {
  readonly args: readonly string[]
  /** The directory of the benchmarks. */
  readonly folder: string
  readonly signal: AbortSignal
  /** Prints the result, and nothing else. */
  readonly out: (text: string) => void
  /** Prints progress and problems. */
  readonly say: (text: string) => void
}

export const STATUS = { ok: 0, doesNotHold: 1, usage: 2, cancelled: 130 }

/** Runs the requested benchmarks, one after another, and returns the exit status. */
export async function main(environment: Environment): Promise<number> {
  const { folder, signal, out, say } = environment
  const names = await listBenchmarks(folder)
  const options = readOptions(environment, names)
  if (options === undefined) return STATUS.usage
  if (options.help) {
    out(`${USAGE}\n\nBenchmarks: ${names.join(", ")}`)
    return STATUS.ok
  }

  const machine = describeMachine()
  say(machine)
  const results: Result[] = []
  try {
    for (const name of options.only.length === 0 ? names : options.only)
      results.push(await runOne(name, environment))
  } catch (error) {
    if (!signal.aborted) throw error
    say(messageOf(signal.reason))
    return STATUS.cancelled
  }
  // On one line, so that a reader who also gets npm's banner finds the array in the last line.
  out(options.json ? JSON.stringify(results) : `${machine}\n\n${renderTable(results)}`)
  return options.strict && results.some(({ holds }) => !holds) ? STATUS.doesNotHold : STATUS.ok
}

function readOptions({ args, say }: Environment, names: readonly string[]): Options | undefined {
  try {
    const options = parseOptions(args)
    const unknown = options.only.find((name) => !names.includes(name))
    if (unknown === undefined) return options
    say(`There is no benchmark ${JSON.stringify(unknown)}. There are: ${names.join(", ")}`)
  } catch (error) {
    say(`${messageOf(error)}\n\n${USAGE}`)
  }
  return undefined
}

async function runOne(name: string, { folder, signal, say }: Environment): Promise<Result> {
  let benchmark: Benchmark<unknown>
  try {
    benchmark = await loadBenchmark(folder, name)
  } catch (error) {
    return failed(name, UNREADABLE, `does not load: ${messageOf(error)}`)
  }
  const { what, runs } = benchmark
  say(`${name}: ${what}, ${runs} runs`)
  const quarter = Math.ceil(runs / 4)
  const onRun = (run: number) => run % quarter === 0 && say(`${name}: ${run}/${runs}`)
  const result = await conduct(name, benchmark, { signal, onRun })
  const verdict = result.holds ? "holds" : "DOES NOT HOLD"
  say(`${name}: ${result.ratio ?? "no figure"}, ${verdict}: ${result.note}`)
  return result
}

/** Stands for a benchmark whose file does not load. */
const UNREADABLE = {
  unit: "count",
  bound: { of: "ours", atMost: 0 },
  statistic: "median",
  runs: 0,
} as const
