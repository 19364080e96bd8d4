import { benchmark } from "../benchmark.ts"
import { startBootingEngine } from "../fixtures/booting-engine.ts"
import { openServed } from "../fixtures/served.ts"
import { SOON_ASLEEP, wakeMs } from "../fixtures/wake.ts"

export default benchmark({
  what: "from paused to a command that has run, on Docker",
  unit: "ms",
  bound: { of: "ours", atMost: 80 },
  statistic: "median",
  runs: 15,
  prepare: async (context) => {
    const { engine, image } = await startBootingEngine(context)
    const docker = ["--backend", "docker", "--engine", engine.host, "--image", image]
    return await openServed(context, [...docker, ...SOON_ASLEEP])
  },
  ours: wakeMs,
})
