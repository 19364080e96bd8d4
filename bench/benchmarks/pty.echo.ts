import { once } from "node:events"
import { benchmark } from "../benchmark.ts"
import { openDockerExec } from "../fixtures/docker-exec.ts"
import { openServed } from "../fixtures/served.ts"
import { timeMs } from "../measure.ts"
import { median } from "../statistics.ts"

/** A program that reads input, which the pty echoes. */
const READER = ["cat"]
const KEYS = 20

/** The delay that a person feels when typing in a terminal. */
export default benchmark({
  what: "a key typed in a terminal of the sandbox → its echo seen",
  unit: "ms",
  bound: { of: "ours", atMost: 5 },
  statistic: "median",
  runs: 21,
  prepare: async (context) => {
    const { sandbox } = await openServed(context)
    const view = await sandbox.pty.create({ command: READER, cols: 80, rows: 24 })
    context.onEnd(() => view.close())
    const docker = await openDockerExec(context)
    const terminal = await docker.terminal(READER, context.signal)
    context.onEnd(() => terminal.destroy())
    return { view, echo: view.output[Symbol.asyncIterator](), terminal, dockerMs: [] as number[] }
  },
  ours: async ({ view, echo, terminal, dockerMs }) => {
    const samples: number[] = []
    for (let key = 0; key < KEYS; key++) {
      samples.push(
        await timeMs(async () => {
          await view.write("x")
          await echo.next()
        }),
      )
      dockerMs.push(
        await timeMs(async () => {
          const echoed = once(terminal, "data")
          terminal.write("x")
          await echoed
        }),
      )
    }
    return samples
  },
  note: ({ dockerMs }) => `through Docker's API: ${median(dockerMs).toFixed(2)} ms`,
})
