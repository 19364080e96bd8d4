import { benchmark } from "../benchmark.ts"
import { KNOWN, makeKnown, RUNNING } from "../fixtures/known.ts"
import { startServer } from "../fixtures/served.ts"
import { median } from "../statistics.ts"

/** Time limit of a call. A start that takes longer than the bound is measured all the same. */
const DEADLINE_MS = 120_000

/** A start is over when the server lists all known sandboxes and has looked once at each that runs. */
export default benchmark({
  what: `from \`berth serve\` until it lists all ${KNOWN} known sandboxes (${RUNNING} of them run, the others are stopped) and a first reconcile is done`,
  unit: "ms",
  bound: { of: "ours", atMost: 500 },
  statistic: "median",
  runs: 9,
  deadlineMs: 30 * 60_000,
  prepare: async (context) => ({
    dataDir: await makeKnown(context),
    stages: { answers: [] as number[], lists: [] as number[], reconciled: [] as number[] },
  }),
  ours: async ({ dataDir, stages }, signal) => {
    const start = performance.now()
    const { client, stop } = await startServer(dataDir, [], signal)
    const call = { signal, deadlineMs: DEADLINE_MS }
    const since = async (done: Promise<unknown>, into: number[]) => {
      await done
      into.push(performance.now() - start)
    }
    const list = async () => {
      const { length } = await client.sandboxes.list(call)
      if (length !== KNOWN) throw new Error(`the server lists ${length} of ${KNOWN}`)
    }
    const reconcile = async () => {
      const { sandboxes } = await client.reconcile(call)
      const kept = sandboxes.filter(({ outcome }) => outcome === "kept")
      if (kept.length !== RUNNING) throw new Error(`${kept.length} of ${RUNNING} were kept`)
    }
    try {
      await Promise.all([
        since(client.health(call), stages.answers),
        since(list(), stages.lists),
        since(reconcile(), stages.reconciled),
      ])
      return performance.now() - start
    } finally {
      await stop()
    }
  },
  note: ({ stages: { answers, lists, reconciled } }) =>
    `it answers after ${said(answers)}, lists after ${said(lists)}, has reconciled after ${said(reconciled)}`,
})

const said = (samples: readonly number[]): string => `${Math.round(median(samples))} ms`
