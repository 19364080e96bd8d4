import { execFile } from "node:child_process"
import { chmod, chown, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { AGENT_USER } from "@berth/protocol/inside"
import { placeAgentFiles } from "@berth/supervisor/agent-files/place"
import { systemClock } from "@berth/supervisor/processes/clock"
import { benchmark, CannotRun, type Context } from "../benchmark.ts"
import { timeMs } from "../measure.ts"

/** The size of a dependency tree that an agent's plugins need. */
const PACKAGES = 250
const FILES_EACH = 20
const FILE_BYTES = 4_096

const FILES = [
  { from: "agents/agent/node_modules", to: ".config/agent/node_modules" },
  { from: "agents/agent/package.json", to: ".config/agent/package.json" },
]

/** The cost of an agent's files at a boot with an empty home. Copying the same tree is the comparison. */
export default benchmark({
  what: "linking agent files with a 5,000-file tree (other: copying them)",
  unit: "ms",
  bound: { of: "ours", atMost: 30 },
  statistic: "median",
  runs: 7,
  prepare: async ({ onEnd }: Context) => {
    if (process.geteuid?.() !== 0) throw new CannotRun("giving files to a user needs root")
    const place = await mkdtemp(join(tmpdir(), "berth-bench-agent-files-"))
    onEnd(() => rm(place, { recursive: true, force: true }))
    await chmod(place, 0o755)
    const toolbox = join(place, "toolbox")
    await fill(join(toolbox, "agents/agent"))
    return { place, toolbox }
  },
  ours: async ({ place, toolbox }, signal) => {
    const home = await mkdtemp(join(place, "home-"))
    await chown(home, AGENT_USER.uid, AGENT_USER.gid)
    const parts = { clock: systemClock, user: AGENT_USER, path: "/usr/bin:/bin" }
    const start = performance.now()
    const { linked } = await placeAgentFiles(FILES, { toolbox, home }, parts, signal)
    const took = performance.now() - start
    if (linked.length !== FILES.length) throw new Error(`only these were linked: ${linked}`)
    return took
  },
  other: async ({ place, toolbox }) => {
    const home = await mkdtemp(join(place, "home-"))
    const took = await timeMs(() =>
      promisify(execFile)("cp", ["-R", join(toolbox, "agents/agent"), home]),
    )
    await rm(home, { recursive: true })
    return took
  },
})

const fill = async (agent: string): Promise<void> => {
  for (let n = 0; n < PACKAGES; n++) {
    const directory = join(agent, "node_modules", `package-${n}`)
    await mkdir(directory, { recursive: true })
    for (let file = 0; file < FILES_EACH; file++) {
      const text = `// ${n} ${file}\n`.padEnd(FILE_BYTES, "x")
      await writeFile(join(directory, `file-${file}.js`), text)
    }
  }
  await writeFile(join(agent, "package.json"), "{}\n")
}
