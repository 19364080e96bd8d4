import { benchmark } from "../benchmark.ts"
import { forgetPeak, peakMb, processesOf } from "../fixtures/memory.ts"
import { makeFile, openBerthCopying } from "../fixtures/transfer.ts"

const LARGE_MIB = 1024
const SMALL_MIB = 64

/**
 * Peak memory of server and sandbox must not grow with the size of a transfer. The bound, a sixteenth of the difference
 * in size, leaves room for buffers.
 */
export default benchmark({
  what: "peak memory of the server and of all processes in the sandbox while 1 GiB goes in and out − while 64 MiB do",
  unit: "MB",
  bound: { of: "difference", atMost: 60 },
  statistic: "median",
  runs: 7,
  deadlineMs: 20 * 60_000,
  prepare: async (context) => {
    const large = await makeFile(context, LARGE_MIB)
    const small = await makeFile(context, SMALL_MIB)
    const { up, down, pid, sandbox } = await openBerthCopying(context)
    const peakOf = async (file: string, signal: AbortSignal): Promise<number> => {
      // Processes that the first transfer starts exist by the first run that counts.
      const all = [pid, ...processesOf(sandbox.id)]
      for (const each of all) forgetPeak(each)
      await up(file, signal)
      await down(signal)
      return all.reduce((sum, each) => sum + peakMb(each), 0)
    }
    return { large, small, peakOf }
  },
  ours: ({ large, peakOf }, signal) => peakOf(large, signal),
  other: ({ small, peakOf }, signal) => peakOf(small, signal),
})
