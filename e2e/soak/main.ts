import { setTimeout as pause } from "node:timers/promises"
import { parseArgs } from "node:util"
import { seeded } from "../bridge/seeded.ts"
import { openServer } from "../sandboxes/server.ts"
import { Soaked } from "./soaked.ts"
import { descriptorsOf, memoryMbOf, takeLeftovers } from "./watched.ts"

/*
 * `npm run soak`: a server with many sandboxes, used and changed and killed at random for a while. What it must hold
 * at the end: every file is there, nothing is left on the host, and the server's memory has not grown.
 */

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "10" },
    sandboxes: { type: "string", default: "50" },
    seed: { type: "string", default: "1" },
  },
})
const lengthMs = Number(values.minutes) * 60_000
const ACTORS = 4
const RESTART_EVERY_MS = 75_000
const SAMPLE_EVERY_MS = 5_000
/** A heap that is not collected yet is not a leak. */
const MAX_GROWTH = 1.3

const random = seeded(Number(values.seed))
const server = await openServer(["--idle-pause", "20s", "--idle-stop", "90s"])
const endMs = performance.now() + lengthMs
const over = new AbortController()
const soaked = new Soaked(() => server.client(), Number(values.sandboxes), random)
const samples: { readonly atMs: number; readonly mb: number }[] = []
const problems: string[] = []
let restarts = 0

const act = async (): Promise<void> => {
  while (performance.now() < endMs && problems.length === 0) {
    try {
      await soaked.actOnce()
    } catch (thrown) {
      problems.push(thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown))
    }
  }
}
const restart = async (): Promise<void> => {
  while (performance.now() + RESTART_EVERY_MS < endMs && problems.length === 0) {
    await pause(RESTART_EVERY_MS, undefined, { signal: over.signal }).catch(() => {})
    if (over.signal.aborted) return
    await soaked.whileDown(async () => {
      await server.kill()
      await server.restart()
    })
    restarts += 1
  }
}
const sample = async (): Promise<void> => {
  while (!over.signal.aborted) {
    samples.push({ atMs: performance.now(), mb: memoryMbOf(server.pid()) })
    await pause(SAMPLE_EVERY_MS, undefined, { signal: over.signal }).catch(() => {})
  }
}

const sampling = sample()
const restarting = restart()
await Promise.all(Array.from({ length: ACTORS }, act))
over.abort()
await Promise.all([sampling, restarting])
problems.push(...(await soaked.check()))
const descriptors = descriptorsOf(server.pid())
const third = Math.max(1, Math.floor(samples.length / 3))
const early = medianMb(samples.slice(0, third))
const late = medianMb(samples.slice(-third))
if (late > early * MAX_GROWTH) problems.push(`the server's memory grew from ${early} to ${late} MB`)
for (const { identity } of await server.client().sandboxes.list())
  await server.client().sandboxes.remove(identity.sandbox, { force: true })
const left = await takeLeftovers(server.client(), server.dataDir)
if (left.length > 0) problems.push(`left over: ${left.join(", ")}`)
await server.close()
const report = { ...soaked.counts, restarts, earlyMb: early, lateMb: late, descriptors, problems }
process.stdout.write(`${JSON.stringify(report, undefined, 2)}\n`)
process.exitCode = problems.length === 0 ? 0 : 1

function medianMb(of: typeof samples): number {
  const sorted = of.map(({ mb }) => mb).sort((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}
