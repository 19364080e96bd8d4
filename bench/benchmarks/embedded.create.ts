import { spawn } from "node:child_process"
import { once } from "node:events"
import { HOST_IMAGE, HOST_IMAGE_ARGUMENTS } from "@berth/testing/docker/image"
import { benchmark } from "../benchmark.ts"
import { type Docker, openDocker } from "../fixtures/docker.ts"
import { openEmbeddedFixture, TALKER } from "../fixtures/embedded.ts"

/** From nothing to the first output of a command, without a network. */
export default benchmark({
  what: "embedded create → first output / docker run",
  unit: "ms",
  bound: { of: "ratio", atMost: 0.15 },
  statistic: "median",
  runs: 11,
  prepare: async (context) => {
    const docker = await openDocker(context)
    const embedded = await openEmbeddedFixture(context)
    // The first sandbox of an installation prepares the system tree, just as Docker's image is prepared before.
    await embedded.backend.remove(await embedded.boot(TALKER, context.signal))
    return { docker, embedded }
  },
  ours: async ({ embedded }, signal) => {
    const start = performance.now()
    const sandbox = await embedded.boot(TALKER, signal)
    const took = performance.now() - start
    await embedded.backend.remove(sandbox)
    return took
  },
  other: async ({ docker }, signal) => dockerRun(docker, signal),
})

const dockerRun = async ({ engine }: Docker, signal: AbortSignal): Promise<number> => {
  const start = performance.now()
  const run = ["run", "--rm", "--init", "--network", "none", ...HOST_IMAGE_ARGUMENTS, HOST_IMAGE]
  const child = spawn("docker", ["--host", engine.host, ...run, ...TALKER], {
    stdio: ["ignore", "pipe", "inherit"],
    signal,
  })
  await once(child.stdout, "data")
  const took = performance.now() - start
  const ended = once(child, "exit")
  child.kill("SIGTERM")
  await ended
  return took
}
