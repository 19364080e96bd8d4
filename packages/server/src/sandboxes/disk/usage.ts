import { readdir, readFile, stat } from "node:fs/promises"
import { join } from "node:path"
import type { FoundCache } from "@berth/backends/backend"
import type { FreeSpace } from "@berth/host/free-space"
import { WITH_LOW_PRIORITY } from "@berth/host/remove-tree"
import { run } from "@berth/host/run"
import { BerthError } from "@berth/protocol/errors"
import { SandboxId } from "@berth/protocol/ids"
import { z } from "zod"
import { placeOfShared } from "../state/shared-place.ts"
import type { Short, Usage } from "./judge.ts"
import type { Placed, Taken } from "./meter.ts"
import { type How, measureUnlinked } from "./unlinked.ts"

/** The deadline while all sandboxes stand still: a tree of some hundred thousand files is measured in this time. */
const URGENT_DEADLINE_MS = 5_000
/** The deadline with low priority, beside other work: a disk of many millions of files is measured in this time. */
const PATIENT_DEADLINE_MS = 10 * 60_000

export interface UsageParts {
  readonly dataDir: string
  readonly caches: () => Promise<readonly FoundCache[]>
  readonly pidsOf: (sandboxes: ReadonlySet<SandboxId>) => Promise<ReadonlyMap<SandboxId, number[]>>
}

/** Measures at once how much sandboxes take of one resource. Infinity: more than can be counted in that time. */
export const measureUsage = async (
  parts: UsageParts,
  sandboxes: readonly Placed[],
  what: Short,
  signal: AbortSignal,
): Promise<Usage> => {
  const how: How = { options: { signal, deadlineMs: URGENT_DEADLINE_MS }, priority: [] }
  const places = await placesOf(parts, sandboxes)
  return new Map(
    await Promise.all(
      places.map(async ({ sandbox, directories, pids }) => {
        const [named, unlinked] = await Promise.all([
          orInfinity(addUp(directories, what, how), Number.POSITIVE_INFINITY),
          orInfinity(measureUnlinked(parts.dataDir, pids, how), UNCOUNTED),
        ])
        return [sandbox, named + unlinked[what]] as const
      }),
    ),
  )
}

/** Measures how much sandboxes take, one after another, with low priority. */
export async function* measurePatiently(
  parts: UsageParts,
  sandboxes: readonly Placed[],
  signal: AbortSignal,
): AsyncGenerator<Taken> {
  const options = { signal, deadlineMs: PATIENT_DEADLINE_MS }
  const how: How = { options, priority: WITH_LOW_PRIORITY }
  for (const { sandbox, directories, pids } of await placesOf(parts, sandboxes)) {
    const startedMs = performance.now()
    const named = async (what: Short) =>
      await orInfinity(addUp(directories, what, how), Number.POSITIVE_INFINITY)
    // The programs run one after the other: the second finds in memory what the first has read.
    const [bytes, inodes] = [await named("bytes"), await named("inodes")]
    const unlinked = await orInfinity(measureUnlinked(parts.dataDir, pids, how), UNCOUNTED)
    const used = { bytes: bytes + unlinked.bytes, inodes: inodes + unlinked.inodes }
    yield { sandbox, used, tookMs: performance.now() - startedMs }
  }
}

const UNCOUNTED: FreeSpace = { bytes: Number.POSITIVE_INFINITY, inodes: Number.POSITIVE_INFINITY }

/**
 * The places where a sandbox can write on this disk: its tops, its own directories beside them, its caches, and files
 * without names.
 */
interface Places {
  readonly sandbox: SandboxId
  readonly directories: readonly string[]
  readonly pids: readonly number[]
}

const Claim = z.object({ sandbox: SandboxId })

const placesOf = async (
  { dataDir, caches, pidsOf }: UsageParts,
  sandboxes: readonly Placed[],
): Promise<Places[]> => {
  const directories = new Map<SandboxId, string[]>(sandboxes.map(({ sandbox }) => [sandbox, []]))
  const add = (sandbox: SandboxId, place: string) => directories.get(sandbox)?.push(place)
  const tops = join(dataDir, "layers", "tops")
  for (const top of await namesIn(tops)) {
    const claimedBy = await claimantOf(join(tops, top, "claim.json"))
    if (claimedBy !== undefined) add(claimedBy, join(tops, top))
  }
  for (const backend of await namesIn(dataDir)) {
    for (const name of await namesIn(join(dataDir, backend, "sandboxes"))) {
      const sandbox = SandboxId.safeParse(name)
      if (sandbox.success) add(sandbox.data, join(dataDir, backend, "sandboxes", name))
    }
  }
  for (const { sandbox } of sandboxes) add(sandbox, join(placeOfShared(dataDir), sandbox))
  for (const { workspace, directory } of await caches().catch(() => [])) {
    if (directory === null || !(await isOnDisk(directory, dataDir))) continue
    for (const placed of sandboxes)
      if (placed.workspace === workspace) add(placed.sandbox, directory)
  }
  const pids = await pidsOf(new Set(directories.keys()))
  return [...directories].map(([sandbox, of]) => ({
    sandbox,
    directories: of,
    pids: pids.get(sandbox) ?? [],
  }))
}

/** A program adds up, so that neither the depth nor the number of files burdens the server. */
const addUp = async (
  directories: readonly string[],
  what: Short,
  { options, priority }: How,
): Promise<number> => {
  const unit = what === "bytes" ? "--block-size=1" : "--inodes"
  const flags = ["--summarize", "--total", "--one-file-system", unit, "--"]
  const [program = "", ...rest] = [...priority, "du", ...flags, ...directories]
  const { stdout } = await run([program, ...rest], options)
  // Files that vanish meanwhile make du fail, but it still prints a total; if it was killed, it prints none.
  const [, total] = /(?:^|\n)(\d+)\ttotal\n$/.exec(stdout) ?? []
  return total === undefined ? Number.POSITIVE_INFINITY : Number(total)
}

const orInfinity = async <Amount>(
  measuring: Promise<Amount>,
  infinity: Amount,
): Promise<Amount> => {
  try {
    return await measuring
  } catch (thrown) {
    if (!(thrown instanceof BerthError && thrown.code === "deadline.exceeded")) throw thrown
    return infinity
  }
}

/** Whether a directory is on the data directory's disk: an engine may keep caches on another. */
const isOnDisk = async (directory: string, dataDir: string): Promise<boolean> => {
  const [own, disk] = await Promise.all([directory, dataDir].map((each) => deviceOf(each)))
  return own === disk
}

const deviceOf = async (path: string): Promise<number | undefined> =>
  (await stat(path).catch(() => undefined))?.dev

const claimantOf = async (claim: string): Promise<SandboxId | undefined> => {
  try {
    return Claim.parse(JSON.parse(await readFile(claim, "utf8"))).sandbox
  } catch {
    return undefined
  }
}

const namesIn = (directory: string): Promise<string[]> => readdir(directory).catch(() => [])
