import { benchmark } from "../benchmark.ts"
import { makeFile, openBerthCopying, openDockerCopying } from "../fixtures/transfer.ts"
import { median } from "../statistics.ts"

const SIZE_MIB = 1024

/** The bound is on the time: half the rate is twice the time. */
export default benchmark({
  what: "1 GiB from a file in the sandbox to a file of the host, until it is on the disk: berth cp / docker cp",
  unit: "ms",
  bound: { of: "ratio", atMost: 2 },
  statistic: "median",
  runs: 7,
  deadlineMs: 20 * 60_000,
  prepare: async (context) => {
    const file = await makeFile(context, SIZE_MIB)
    const ours = await openBerthCopying(context)
    const docker = await openDockerCopying(context)
    await ours.up(file, context.signal)
    await docker.up(file, context.signal)
    return { ours, docker }
  },
  ours: ({ ours }, signal) => ours.down(signal),
  other: ({ docker }, signal) => docker.down(signal),
  note: ({ ours, docker }) =>
    `of that the commands: ${said(ours.commandMs)} / ${said(docker.commandMs)}`,
})

const said = (samples: readonly number[]): string => `${Math.round(median(samples))} ms`
