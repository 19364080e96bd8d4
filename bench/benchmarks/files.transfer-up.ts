import { benchmark } from "../benchmark.ts"
import { makeFile, openBerthCopying, openDockerCopying } from "../fixtures/transfer.ts"
import { median } from "../statistics.ts"

const SIZE_MIB = 1024

/** The bound is on the time: half the rate is twice the time. */
export default benchmark({
  what: "1 GiB from a file of the host to a file in the sandbox, until it is on the disk: berth cp / docker cp",
  unit: "ms",
  bound: { of: "ratio", atMost: 2 },
  statistic: "median",
  runs: 7,
  deadlineMs: 20 * 60_000,
  prepare: async (context) => ({
    file: await makeFile(context, SIZE_MIB),
    ours: await openBerthCopying(context),
    docker: await openDockerCopying(context),
  }),
  ours: ({ ours, file }, signal) => ours.up(file, signal),
  other: ({ docker, file }, signal) => docker.up(file, signal),
  note: ({ ours, docker }) =>
    `of that the commands: ${said(ours.commandMs)} / ${said(docker.commandMs)}`,
})

const said = (samples: readonly number[]): string => `${Math.round(median(samples))} ms`
