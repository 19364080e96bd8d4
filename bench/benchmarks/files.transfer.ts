import { openAsBlob } from "node:fs"
import { mkdtemp, open, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { benchmark, type Context } from "../benchmark.ts"
import { runCommand } from "../command.ts"
import { openDockerExec } from "../fixtures/docker-exec.ts"
import { openServed } from "../fixtures/served.ts"
import { timeMs } from "../measure.ts"

const MIB = 1024 * 1024
const SIZE_MIB = 1024

/** Half the rate is twice the time. */
export default benchmark({
  what: "1 GB into the sandbox and out of it, through the server / docker cp",
  unit: "ms",
  bound: { of: "ratio", atMost: 2 },
  statistic: "median",
  runs: 7,
  prepare: async (context) => ({
    ...(await makeFile(context)),
    ...(await openServed(context)),
    docker: await openDockerExec(context),
  }),
  ours: ({ sandbox, file }, signal) =>
    timeMs(async () => {
      await sandbox.files.write("large", await openAsBlob(file), { signal })
      let bytes = 0
      const back = await sandbox.files.readStream("large", { signal })
      for await (const chunk of back) bytes += chunk.length
      if (bytes !== SIZE_MIB * MIB) throw new Error(`${bytes} bytes came back`)
    }),
  other: ({ docker: { host, container }, file, base }, signal) =>
    timeMs(async () => {
      const cp = (from: string, to: string) =>
        runCommand("docker", ["--host", host, "cp", from, to], signal)
      await cp(file, `${container}:/home/large`)
      await cp(`${container}:/home/large`, join(base, "back"))
    }),
  note: ({ serverPeakMb }) => `the server's memory: at most ${serverPeakMb()} MB`,
})

const makeFile = async ({ onEnd }: Context) => {
  const base = await mkdtemp(join(tmpdir(), "berth-bench-files-"))
  onEnd(() => rm(base, { recursive: true, force: true }))
  const path = join(base, "large")
  await using file = await open(path, "w")
  const piece = Buffer.alloc(MIB, "berth ")
  for (let count = 0; count < SIZE_MIB; count++) await file.write(piece)
  return { base, file: path }
}
