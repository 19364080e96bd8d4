import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as pause } from "node:timers/promises"
import { parseArgs } from "node:util"
import { seeded } from "@berth/testing/seed"
import { openServer } from "../sandboxes/server.ts"
import { supervisorOf } from "../sandboxes/traces.ts"
import { heldMbOf, heldVariables } from "./held.ts"
import { complaintOf, growthOf, lifeOf, type Sample, SHORT_MS } from "./judge.ts"
import { Soaked } from "./soaked.ts"
import { MEASURES, type MeasureName, measure, takeLeftovers } from "./watched.ts"

/*
 * `npm run soak`: a server with many sandboxes, used and changed and killed at random for a while. What it must hold
 * at the end: every file is there, nothing is left on the host, and nothing that is counted has grown for as long as a server
 * lived. Its status is 1 if one of these does not hold. A run of an hour or more has lives of half an hour; in a shorter one
 * they are shorter, and only fast growth is found.
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
const SAMPLE_EVERY_MS = 5_000
/** Every so many samples come after a collection. The others leave the server's memory to itself. */
const COLLECT_EVERY = 3
const { lifeMs, warmUpMs } = lifeOf(lengthMs)

const random = seeded(Number(values.seed))
const own = mkdtempSync(join(tmpdir(), "berth-soak-"))
const heldFile = join(own, "held")
const server = await openServer(
  ["--idle-pause", "20s", "--idle-stop", "90s", "--session-keep", "2s"],
  undefined,
  heldVariables(heldFile),
)
const endMs = performance.now() + lengthMs
const over = new AbortController()
const soaked = new Soaked(() => server.client(), Number(values.sandboxes), random)
const { installationId: installation } = await server.client().status()
const resident = await soaked.openResident()
const supervisor = supervisorOf(resident)
/** The samples of each measure, by the server's life. A measure that outlives servers has one life. */
const lives = new Map<MeasureName, Map<number, Sample[]>>()
const problems: string[] = []
let restarts = 0

/** Runs a part of the soak. A failure becomes a problem of the report, which is written all the same. */
const noting = async (work: () => Promise<void>): Promise<void> => {
  try {
    await work()
  } catch (thrown) {
    problems.push(thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown))
  }
}
const act = async (once: () => Promise<void>): Promise<void> => {
  while (performance.now() < endMs && problems.length === 0) await noting(once)
}
const restart = async (): Promise<void> => {
  while (performance.now() + lifeMs < endMs && problems.length === 0) {
    await pause(lifeMs, undefined, { signal: over.signal }).catch(() => {})
    if (over.signal.aborted) return
    await soaked.whileDown(async () => {
      await server.kill()
      await server.restart()
    })
    restarts += 1
  }
}
const OF_SERVER: readonly MeasureName[] = ["memory", "held", "descriptors"]
const sample = async (): Promise<void> => {
  for (let count = 0; !over.signal.aborted; count += 1) {
    const pid = server.pid()
    const held = count % COLLECT_EVERY === 0 ? await heldMbOf(pid, heldFile) : undefined
    const watched = { server: pid, supervisor, installation, dataDir: server.dataDir }
    const measured = { ...measure(watched), ...(held !== undefined && { held }) }
    for (const [name, value] of Object.entries(measured) as [MeasureName, number][]) {
      const life = OF_SERVER.includes(name) ? pid : 0
      const ofName = lives.get(name) ?? new Map<number, Sample[]>()
      lives.set(name, ofName)
      ofName.set(life, [...(ofName.get(life) ?? []), { atMs: performance.now(), value }])
    }
    await pause(SAMPLE_EVERY_MS, undefined, { signal: over.signal }).catch(() => {})
  }
}

const sampling = sample()
const restarting = restart()
await Promise.all([
  ...Array.from({ length: ACTORS }, () => act(() => soaked.actOnce())),
  act(() => soaked.useResident()),
])
over.abort()
await Promise.all([sampling, restarting])
await noting(async () => {
  problems.push(...(await soaked.check()))
  if (supervisorOf(resident) !== supervisor)
    problems.push("the supervisor of the sandbox that was held is another one")
})
const growth = [...lives].flatMap(([name, ofName]) =>
  [...ofName.values()].flatMap((samples) => {
    const found = growthOf(MEASURES[name], samples, warmUpMs)
    return found === undefined ? [] : [{ name, ...found }]
  }),
)
for (const { name, ...found } of growth)
  if (found.isTooMuch) problems.push(complaintOf(MEASURES[name], found))
await noting(async () => {
  for (const { identity } of await server.client().sandboxes.list())
    await server.client().sandboxes.remove(identity.sandbox, { force: true })
  const left = await takeLeftovers(server.client(), server.dataDir)
  if (left.length > 0) problems.push(`left over: ${left.join(", ")}`)
})
await noting(server.close)
rmSync(own, { recursive: true, force: true })
const minutes = Math.round(lifeMs / 6_000) / 10
const report = { ...soaked.counts, restarts, lifeMinutes: minutes, growth, problems }
process.stdout.write(`${JSON.stringify(report, undefined, 2)}\n`)
if (lifeMs - warmUpMs < SHORT_MS)
  process.stdout.write(
    `Servers lived for ${minutes} minutes: only what grows fast is found; --minutes 60 tells more.\n`,
  )
process.exitCode = problems.length === 0 ? 0 : 1
