import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { createLogger } from "@berth/server/logging/logger"
import { Secrets } from "@berth/server/logging/secrets"
import { openStandalone } from "@berth/server/standalone"
import { node } from "@berth/server/toolbox/inputs/node"
import { pty } from "@berth/server/toolbox/inputs/pty"
import { supervisor } from "@berth/server/toolbox/inputs/supervisor"
import { tini } from "@berth/server/toolbox/inputs/tini"
import { openToolboxes } from "@berth/server/toolbox/store"
import { benchmark, CannotRun } from "../benchmark.ts"

const FROM = fileURLToPath(new URL("../..", import.meta.url))
const COUNT = 20

/** What the server's own objects and buffers take for a sandbox that it is connected to and that nobody uses. */
export default benchmark({
  what: "the server's memory per idle sandbox, in bytes",
  unit: "bytes",
  bound: { of: "ours", atMost: 150_000 },
  statistic: "median",
  runs: 7,
  deadlineMs: 15 * 60_000,
  prepare: async ({ signal, onEnd }) => {
    if (process.geteuid?.() !== 0) throw new CannotRun("sandboxes need root")
    const dataDir = await mkdtemp(join(tmpdir(), "berth-bench-memory-"))
    onEnd(() => rm(dataDir, { recursive: true, force: true }))
    const arch = process.arch as "x64" | "arm64"
    const source = { arch, from: FROM, path: process.env.PATH ?? "", signal }
    const inputs = await Promise.all([node, tini, pty, supervisor].map((find) => find(source)))
    const toolboxes = openToolboxes({ root: join(dataDir, "toolbox"), arch })
    const toolbox = await toolboxes.build(inputs, { signal })
    const secrets = new Secrets()
    const destination = { write: () => {} }
    const log = await createLogger({ level: "error", pretty: false, secrets, destination })
    const options = { dataDir, links: join(dataDir, "links"), environment: {} }
    const standalone = await openStandalone({ ...options, toolbox, log, secrets }, signal)
    onEnd(() => standalone.close())
    return standalone
  },
  ours: async (standalone) => {
    const workspace = WorkspaceSpec.parse({ slug: "idle", network: { kind: "none" } })
    const before = usedBytes()
    const all = []
    for (let count = 0; count < COUNT; count += 1)
      all.push(await standalone.launch(workspace, "fresh"))
    for (const sandbox of all) await sandbox.until(({ type }) => type === "boot.ready")
    const used = usedBytes() - before
    for (const sandbox of all) await sandbox.remove()
    return used / COUNT
  },
})

const usedBytes = (): number => {
  setFlagsFromString("--expose-gc")
  const collect = runInNewContext("gc") as () => void
  collect()
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
