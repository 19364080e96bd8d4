import { benchmark } from "../benchmark.ts"
import { openDockerExec } from "../fixtures/docker-exec.ts"
import { openServed } from "../fixtures/served.ts"
import { timeMs } from "../measure.ts"

/** Runs a single command, from the client's call to its status. */
export default benchmark({
  what: "`true` through the server / `true` through Docker's API",
  unit: "ms",
  bound: { of: "ratio", atMost: 0.2 },
  statistic: "median",
  runs: 41,
  prepare: async (context) => ({
    ...(await openServed(context)),
    docker: await openDockerExec(context),
  }),
  ours: ({ sandbox }, signal) =>
    timeMs(async () => {
      const { status } = await sandbox.commands.run(["true"], { signal })
      if (status !== 0) throw new Error(`true ended with ${status}`)
    }),
  other: ({ docker }, signal) =>
    timeMs(async () => {
      const status = await docker.run(["true"], signal)
      if (status !== 0) throw new Error(`true ended with ${status}`)
    }),
  note: ({ serverPeakMb }) => `the server's memory: at most ${serverPeakMb()} MB`,
})
