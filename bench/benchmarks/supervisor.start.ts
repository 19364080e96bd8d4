import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdirSync, mkdtempSync, rmSync, watch, writeFileSync } from "node:fs"
import { request } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { BootPlan } from "@berth/protocol/boot-plan"
import { newId } from "@berth/protocol/ids"
import { SUPERVISOR_FLAGS } from "@berth/protocol/inside"
import { LINK } from "@berth/protocol/link"
import { build } from "esbuild"
import { benchmark, type Context } from "../benchmark.ts"
import { runCommand } from "../command.ts"
import { timeMs } from "../measure.ts"

const PROGRAM = fileURLToPath(
  new URL("../../packages/supervisor/src/testing/program.ts", import.meta.url),
)
const TOKEN = "a-token-for-the-benchmark-0123456789abcdef"

/** From the supervisor's start to its first answer, against the least that node costs. */
export default benchmark({
  what: "supervisor's start → its socket answers / node -e 0",
  unit: "ms",
  bound: { of: "ratio", atMost: 2 },
  statistic: "median",
  runs: 41,
  prepare: bundle,
  ours: startToAnswer,
  other: (_, signal) => timeMs(() => runCommand(process.execPath, ["-e", "0"], signal)),
})

/** The supervisor, bundled and compiled as the toolbox has it, but for places of its own instead of a sandbox's. */
async function bundle({ onEnd }: Context) {
  const place = mkdtempSync(join(tmpdir(), "berth-bench-supervisor-"))
  onEnd(() => rmSync(place, { recursive: true, force: true }))
  const program = join(place, "program.cjs")
  await build({
    ...{ entryPoints: [PROGRAM], outfile: program, bundle: true, platform: "node" },
    ...{ format: "cjs", target: "node24", conditions: ["source"], logLevel: "warning" },
    ...{ minifyWhitespace: true, minifySyntax: true, external: ["@lydell/node-pty"] },
  })
  const env = {
    ...{ PATH: "/usr/bin:/bin", NODE_COMPILE_CACHE: join(place, "cache") },
    NODE_COMPILE_CACHE_PORTABLE: "1",
  }
  // Compiles it, as `npm run build` does: without places it ends at once.
  spawnSync(process.execPath, [...SUPERVISOR_FLAGS, program, "{}"], { env })
  return { place, program, env }
}

async function startToAnswer(
  { place, program, env }: Awaited<ReturnType<typeof bundle>>,
  signal: AbortSignal,
): Promise<number> {
  const options = makePlaces(place)
  const socketPath = join(options.link, LINK.socket)
  const watcher = watch(options.link)
  const startMs = performance.now()
  const child = spawn(process.execPath, [...SUPERVISOR_FLAGS, program, JSON.stringify(options)], {
    ...{ env, stdio: ["ignore", "ignore", "inherit"] },
  })
  const ended = once(child, "close")
  try {
    // Noticed as it appears: asking again and again would take the processor away from what is measured.
    while (!existsSync(socketPath)) await once(watcher, "change", { signal })
    while (!(await isAnswering(socketPath))) signal.throwIfAborted()
    return performance.now() - startMs
  } finally {
    watcher.close()
    child.kill("SIGKILL")
    await ended
    rmSync(options.root, { recursive: true, force: true })
  }
}

const makePlaces = (place: string) => {
  const root = mkdtempSync(join(place, "run-"))
  const at = (name: string) => join(root, name)
  const places = { workspace: at("w"), home: at("h"), toolbox: at("t"), logs: at("l") }
  const link = at("link")
  for (const directory of [link, ...Object.values(places)]) mkdirSync(directory)
  const plan = BootPlan.parse({
    ...{ sandbox: newId.sandbox(), mode: "fresh", repos: [], hooks: {}, environment: {} },
    ...{ agent: { kind: "shell" }, sidecars: [] },
  })
  writeFileSync(join(link, LINK.token), TOKEN, { mode: 0o600 })
  writeFileSync(join(link, LINK.plan), JSON.stringify(plan))
  return { root, link, places, credentials: at("git/credentials.sock"), user: ownUser() }
}

const ownUser = () => ({
  name: "agent",
  uid: process.getuid?.() ?? 0,
  gid: process.getgid?.() ?? 0,
})

const isAnswering = (socketPath: string): Promise<boolean> =>
  new Promise((resolve) => {
    const headers = { authorization: `Bearer ${TOKEN}` }
    const sent = request({ socketPath, path: "/health", headers, agent: false })
    sent.on("error", () => resolve(false))
    sent.on("response", (response) => {
      response.resume()
      resolve(response.statusCode === 200)
    })
    sent.end()
  })
