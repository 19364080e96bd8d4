import { spawnSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { takeCensus } from "@berth/backends/embedded/testing/harness"
import { InstallationId } from "@berth/protocol/ids"
import type { Client } from "@berth/sdk/client"
import type { Measure } from "./judge.ts"

/** The measures of a soak. The limits are the growth that an hour of steady use may bring; no growth may go on for ever. */
export const MEASURES = {
  memory: { name: "the server's memory", unit: "MB", maxPerHour: 30, shortSlack: 60 },
  /** The memory that the server's code holds right after a collection. Garbage comes and goes by a hundred megabytes, and hides a small leak. */
  held: { name: "the server's memory without garbage", unit: "MB", maxPerHour: 6, shortSlack: 15 },
  supervisor: { name: "the supervisor's memory", unit: "MB", maxPerHour: 15, shortSlack: 25 },
  descriptors: { name: "the server's descriptors", unit: "", maxPerHour: 20, shortSlack: 20 },
  cgroups: { name: "cgroups of no sandbox", unit: "", maxPerHour: 4, shortSlack: 2 },
  rows: { name: "rows of what is there", unit: "", maxPerHour: 20, shortSlack: 20 },
} as const satisfies Record<string, Measure>

export type MeasureName = keyof typeof MEASURES

export interface Watched {
  readonly server: number
  readonly supervisor: number
  readonly installation: string
  readonly dataDir: string
}

/** Counts everything once. Returns undefined if the server is down. */
export const measure = (
  watched: Watched,
): Record<Exclude<MeasureName, "held">, number> | undefined => {
  const { server, supervisor, dataDir, installation } = watched
  const memory = memoryMbOf(server)
  const descriptors = entriesOf(`/proc/${server}/fd`)
  if (memory === 0 || descriptors === 0) return undefined
  const { ids, rows } = readRows(dataDir)
  const cgroups = cgroupsOf(installation).filter((path) => !ids.some((id) => path.includes(id)))
  return {
    memory,
    supervisor: memoryMbOf(supervisor),
    // Each sandbox that is there has its bridge.
    descriptors: descriptors - ids.length,
    cgroups: cgroups.length,
    rows,
  }
}

const memoryMbOf = (pid: number): number => {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8")
    return Math.round((10 * Number(/VmRSS:\s+(\d+)/.exec(status)?.[1])) / 1024) / 10
  } catch {
    return 0
  }
}

/** Counts rows, except for those that the store keeps: gone sandboxes, decisions, events and ended prompts. */
const readRows = (dataDir: string): { ids: readonly string[]; rows: number } => {
  const database = new DatabaseSync(join(dataDir, "berth.db"), { readOnly: true })
  try {
    const found = database.prepare("SELECT id FROM sandboxes WHERE phase <> 'gone'").all()
    const ids = (found as { id: string }[]).map(({ id }) => id)
    const { others } = database
      .prepare(
        `SELECT (SELECT count(*) FROM leases) + (SELECT count(*) FROM workspaces)
          + (SELECT count(*) FROM prompts WHERE state IN ('queued', 'running')) AS others`,
      )
      .get() as { others: number }
    return { ids, rows: ids.length + others }
  } finally {
    database.close()
  }
}

/** The cgroups of sandboxes, without those above them. */
const cgroupsOf = (installation: string): string[] =>
  spawnSync("find", ["/sys/fs/cgroup", "-type", "d", "-path", `*${installation}*sb-*`], {
    encoding: "utf8",
  })
    .stdout.split("\n")
    .filter((path) => path !== "")

/** Describes the traces on the host of sandboxes that have all been removed. */
export const takeLeftovers = async (client: Client, dataDir: string): Promise<string[]> => {
  const { installationId } = await client.status()
  const { cgroups, ...census } = await takeCensus(
    InstallationId.parse(installationId),
    join(dataDir, "embedded"),
  )
  const files = ["shared", "layers/tops", "layers/layers", "layers/stacks"].map(
    (name) => [name, entriesOf(join(dataDir, name))] as const,
  )
  return [...Object.entries(census), ...files]
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${count} ${name}`)
}

const entriesOf = (path: string): number => {
  try {
    return readdirSync(path).length
  } catch {
    return 0
  }
}
