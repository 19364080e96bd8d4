import { setTimeout as pause } from "node:timers/promises"
import { parseArgs } from "node:util"
import { seeded } from "@berth/testing/seed"
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
/** Long enough for each server to show whether it grows. */
const RESTART_EVERY_MS = 190_000
const SAMPLE_EVERY_MS = 5_000
/** Until all of its code has run, a server grows. */
const WARM_UP_MS = 60_000
/** A heap that is not collected yet is not a leak. */
const MAX_GROWTH = 1.3

const random = seeded(Number(values.seed))
const server = await openServer([
  "--idle-pause",
  "20s",
  "--idle-stop",
  "90s",
  "--session-keep",
  "2s",
])
const endMs = performance.now() + lengthMs
const over = new AbortController()
const soaked = new Soaked(() => server.client(), Number(values.sandboxes), random)
/** Of each server, by its pid. */
const samples = new Map<number, { readonly atMs: number; readonly mb: number }[]>()
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
    const pid = server.pid()
    const mb = memoryMbOf(pid)
    if (mb > 0) samples.set(pid, [...(samples.get(pid) ?? []), { atMs: performance.now(), mb }])
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
const memory = [...samples.values()].flatMap(growthOf)
for (const { earlyMb, lateMb } of memory)
  if (lateMb > earlyMb * MAX_GROWTH)
    problems.push(`the server's memory grew from ${earlyMb} to ${lateMb} MB`)
for (const { identity } of await server.client().sandboxes.list())
  await server.client().sandboxes.remove(identity.sandbox, { force: true })
const left = await takeLeftovers(server.client(), server.dataDir)
if (left.length > 0) problems.push(`left over: ${left.join(", ")}`)
await server.close()
const report = { ...soaked.counts, restarts, memory, descriptors, problems }
process.stdout.write(`${JSON.stringify(report, undefined, 2)}\n`)
process.exitCode = problems.length === 0 ? 0 : 1

/** Of one server that lived long enough to tell: in the first and in the last third after it was warm. */
function growthOf(of: readonly { readonly atMs: number; readonly mb: number }[]) {
  const warm = of.filter(({ atMs }) => atMs - (of[0]?.atMs ?? 0) > WARM_UP_MS)
  const third = Math.floor(warm.length / 3)
  if (third === 0) return []
  return [{ earlyMb: medianMb(warm.slice(0, third)), lateMb: medianMb(warm.slice(-third)) }]
}

function medianMb(of: readonly { readonly mb: number }[]): number {
  const sorted = of.map(({ mb }) => mb).sort((one, other) => one - other)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}
