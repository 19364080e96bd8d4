import { startDockerEngine } from "@berth/testing/docker/engine"
import { importSystemImage } from "@berth/testing/docker/image"
import { BOOT_PACKAGES } from "@berth/testing/system-files"
import { benchmark, CannotRun } from "../benchmark.ts"
import { openServed } from "../fixtures/served.ts"
import { SOON_ASLEEP, wakeMs } from "../fixtures/wake.ts"

export default benchmark({
  what: "from paused to a command that has run, on Docker",
  unit: "ms",
  bound: { of: "ours", atMost: 80 },
  statistic: "median",
  runs: 15,
  prepare: async (context) => {
    const engine = await startDockerEngine({ networks: false }).catch((cause) => {
      throw new CannotRun("no Docker engine can be started here", { cause })
    })
    context.onEnd(() => engine.stop())
    const image = await importSystemImage(engine, BOOT_PACKAGES)
    const docker = ["--backend", "docker", "--engine", engine.host, "--image", image]
    return await openServed(context, [...docker, ...SOON_ASLEEP])
  },
  ours: wakeMs,
})
