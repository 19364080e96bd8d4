import { spawnSync } from "node:child_process"
import { readdirSync, readFileSync, readlinkSync } from "node:fs"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { setTimeout as pause } from "node:timers/promises"
import { isDeepStrictEqual } from "node:util"
import { namesOf } from "@berth/backends/embedded/network/names"
import type { World } from "./world.ts"

/** Everything on the host that leads back to a server and its sandboxes, in words that name each leftover. */
export interface Stock {
  readonly processes: readonly string[]
  readonly mounts: number
  readonly cgroups: number
  readonly devices: number
  readonly rows: Readonly<Record<string, number>>
  readonly sharedDirectories: number
  readonly tops: number
  /** Descriptors that the server has open, apart from connections of clients. */
  readonly descriptors: readonly string[]
}

/** Room for the names of all cgroups of a host with many. */
const MAX_LIST = 64 * 2 ** 20

/** The pause between two looks at the host, as a look takes much processor time. */
export const STOCK_EVERY_MS = 300

/** The number of equal looks in a row after which the stock has settled. */
const SETTLED_LOOKS = 4

export const takeStock = async (world: World): Promise<Stock> => {
  const { installation, dataDir } = world
  const marks = [installation, dataDir, ...(await world.engineMarks())]
  const { devicePrefix } = namesOf(installation)
  return {
    processes: processesOf(marks, world.pid()),
    mounts: linesWith("/proc/self/mountinfo", marks),
    cgroups: cgroupsOf(marks),
    devices: linesWith("/proc/net/dev", [devicePrefix]),
    rows: rowsOf(dataDir),
    // The shared directory of a sandbox that is gone stays for a while, so that its boot can still be shown.
    sharedDirectories: liveSharedOf(world),
    tops: world.tops().length,
    descriptors: descriptorsOf(world.pid()),
  }
}

/** Takes the stock when it no longer changes: a server starts the helpers that it keeps ready some time later. */
export const takeSettledStock = async (world: World): Promise<Stock> => {
  let stock = await takeStock(world)
  for (let same = 0; same < SETTLED_LOOKS; ) {
    await pause(STOCK_EVERY_MS)
    const next = await takeStock(world)
    same = isDeepStrictEqual(next, stock) ? same + 1 : 0
    stock = next
  }
  return stock
}

const linesWith = (file: string, marks: readonly string[]): number =>
  readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => marks.some((mark) => line.includes(mark))).length

/** The names of the programs that run, but the server's own. A zombie has ended. */
const processesOf = (marks: readonly string[], server: number): string[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && ![server, process.pid].includes(Number(name)))
    .flatMap((pid) => {
      const belongs = [read(pid, "cgroup"), read(pid, "cmdline")].some((text) =>
        marks.some((mark) => text.includes(mark)),
      )
      return belongs && !/\) Z /.test(read(pid, "stat")) ? [read(pid, "comm").trim()] : []
    })
    .toSorted()

/** Counts cgroups. Errors of `find` are ignored, as other tests remove cgroups meanwhile. */
const cgroupsOf = (marks: readonly string[]): number =>
  spawnSync("find", ["/sys/fs/cgroup", "-type", "d"], { encoding: "utf8", maxBuffer: MAX_LIST })
    .stdout.split("\n")
    .filter((path) => marks.some((mark) => path.includes(mark))).length

/** Counts rows of existing things. Decisions and gone sandboxes are left out, as the store keeps them. */
const rowsOf = (dataDir: string): Record<string, number> => {
  const database = new DatabaseSync(join(dataDir, "berth.db"), { readOnly: true })
  const count = (from: string) =>
    (database.prepare(`SELECT count(*) AS count FROM ${from}`).get() as { count: number }).count
  try {
    return {
      sandboxes: count("sandboxes WHERE phase <> 'gone'"),
      // A session that is watched keeps the sandbox of its last prompt.
      leases: count("leases WHERE kind <> 'session'"),
      workspaces: count("workspaces"),
      pending: count("prompts WHERE state IN ('queued', 'running')"),
    }
  } finally {
    database.close()
  }
}

const liveSharedOf = (world: World): number => {
  const database = new DatabaseSync(join(world.dataDir, "berth.db"), { readOnly: true })
  try {
    const gone = database.prepare("SELECT id FROM sandboxes WHERE phase = 'gone'").all()
    const ids = new Set((gone as { id: string }[]).map(({ id }) => id))
    return world.sharedDirectories().filter((name) => !ids.has(name)).length
  } finally {
    database.close()
  }
}

const descriptorsOf = (pid: number): string[] => {
  const tcp = new Set(
    ["tcp", "tcp6"].flatMap((table) =>
      read(String(pid), `net/${table}`)
        .split("\n")
        .map((line) => `socket:[${line.trim().split(/\s+/)[9]}]`),
    ),
  )
  return (
    readdirSync(`/proc/${pid}/fd`)
      .flatMap((fd) => {
        try {
          return [readlinkSync(`/proc/${pid}/fd/${fd}`)]
        } catch {
          return []
        }
      })
      .filter((target) => !tcp.has(target))
      // SQLite keeps the descriptor of the thread that empties its log, for the next one.
      .filter(
        (target, place, all) => !target.endsWith("/berth.db") || all.indexOf(target) === place,
      )
      .map((target) => target.replace(/\d+\]$/, "]").replace(/sb-[0-9a-z]+/g, "SANDBOX"))
      .toSorted()
  )
}

const read = (pid: string, name: string): string => {
  try {
    return readFileSync(`/proc/${pid}/${name}`, "latin1")
  } catch {
    return ""
  }
}
