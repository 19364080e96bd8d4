import { benchmark } from "../benchmark.ts"
import { openDockerExec } from "../fixtures/docker-exec.ts"
import { openServed } from "../fixtures/served.ts"
import { timeMs } from "../measure.ts"

const COMMANDS = 200
const AT_ONCE = 20

/** Runs many short commands, as a busy agent's tools do. */
export default benchmark({
  what: "200 short commands, 20 at a time, through the server / through Docker's API",
  unit: "ms",
  bound: { of: "ratio", atMost: 0.2 },
  statistic: "median",
  runs: 7,
  prepare: async (context) => ({
    ...(await openServed(context)),
    docker: await openDockerExec(context),
  }),
  ours: ({ sandbox }, signal) =>
    burst(async () => (await sandbox.commands.run(["echo", "x"], { signal })).status),
  other: ({ docker }, signal) => burst(() => docker.run(["echo", "x"], signal)),
  note: ({ serverPeakMb }) => `the server's memory: at most ${serverPeakMb()} MB`,
})

const burst = (run: () => Promise<number | null>): Promise<number> =>
  timeMs(async () => {
    let left = COMMANDS
    const worker = async () => {
      while (left-- > 0) {
        const status = await run()
        if (status !== 0) throw new Error(`a command ended with ${status}`)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, worker))
  })
