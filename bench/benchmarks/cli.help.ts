import { access, constants } from "node:fs/promises"
import { fileURLToPath } from "node:url"
import { benchmark, CannotRun } from "../benchmark.ts"
import { runCommand } from "../command.ts"
import { timeMs } from "../measure.ts"

const berth = fileURLToPath(new URL("../../bin/berth", import.meta.url))

/** The start-up cost of a command, compared with the least that node costs. */
export default benchmark({
  what: "berth --help / node -e 0",
  unit: "ms",
  bound: { of: "ratio", atMost: 2.5 },
  statistic: "median",
  runs: 21,
  prepare: async () => {
    await access(berth, constants.X_OK).catch((cause) => {
      throw new CannotRun(`${berth} is not there`, { cause })
    })
  },
  ours: (_, signal) => timeMs(() => runCommand(berth, ["--help"], signal)),
  other: (_, signal) => timeMs(() => runCommand(process.execPath, ["-e", "0"], signal)),
})
