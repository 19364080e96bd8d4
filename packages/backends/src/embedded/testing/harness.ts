import { readdirSync, readFileSync } from "node:fs"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { PLAIN_ENV } from "@berth/host/child"
import { run } from "@berth/host/run"
import { type InstallationId, newId } from "@berth/protocol/ids"
import type { Backend } from "../../backend.ts"
import type { ContractHarness } from "../../testing/contract/harness.ts"
import { type EmbeddedOptions, openEmbedded } from "../backend.ts"
import { namesOf } from "../network/names.ts"
import { identifyProcess } from "../process.ts"

/** Long enough for a busy machine to list its processes. */
const CENSUS_DEADLINE_MS = 20_000

/** Opens an embedded backend in a directory of its own, with the means to see what it leaves on the host. */
export const openHarness = async (
  options: Partial<EmbeddedOptions> = {},
): Promise<ContractHarness & { readonly directory: string }> => {
  const directory = await mkdtemp(join(tmpdir(), "berth-embedded-"))
  const others: string[] = []
  const installation = newId.installation()
  const opened: Backend[] = []
  const reopen = async () => {
    const backend = await openEmbedded({ installation, directory, ...options })
    opened.push(backend)
    return backend
  }
  const backend = await reopen().catch(async (failure) => {
    await rm(directory, { recursive: true, force: true })
    throw failure
  })
  return {
    installation,
    directory,
    backend,
    system: { kind: "host" },
    reopen,
    async other() {
      const theirs = await mkdtemp(join(tmpdir(), "berth-other-"))
      others.push(theirs)
      const their = newId.installation()
      return {
        installation: their,
        backend: await openEmbedded({
          installation: their,
          directory: theirs,
          ...options,
        }),
      }
    },
    census: () => takeCensus(installation, directory),
    async close() {
      // A test that failed half-way leaves nothing either.
      if (Object.values(await takeCensus(installation, directory)).some((count) => count > 0)) {
        const last = await openEmbedded({ installation, directory })
        await last.repair()
        for (const { identity } of await last.list()) await last.remove(identity.sandbox)
        await last.close()
      }
      for (const backend of opened) await backend.close()
      for (const each of [directory, ...others]) await rm(each, { recursive: true, force: true })
    },
  }
}

/** Counts everything on this host that leads back to an installation. */
export const takeCensus = async (installation: InstallationId, directory: string) => {
  const names = namesOf(installation)
  const signal = AbortSignal.timeout(CENSUS_DEADLINE_MS)
  // Counted first and alone: the programs that answer the other questions name the installation.
  const processes = countProcesses([installation, directory])
  const [mounts, cgroups, devices, tables, files] = await Promise.all([
    readFile("/proc/self/mountinfo", "utf8").then((text) => linesWith(text, directory)),
    run(["find", "/sys/fs/cgroup", "-path", `*${installation}*`], { signal }),
    readDevices(),
    run(["nft", "list", "tables"], { signal, env: PLAIN_ENV }),
    run(
      [
        "find",
        ...KEPT.map((name) => join(directory, name)),
        "-mindepth",
        "1",
        "-not",
        "(",
        "-type",
        "d",
        "-empty",
        ")",
      ],
      {
        signal,
      },
    ),
  ])
  return {
    processes,
    mounts,
    cgroups: lines(cgroups.stdout),
    devices: devices.filter((device) => device.startsWith(names.devicePrefix)).length,
    tables: linesWith(tables.stdout, names.table),
    files: lines(files.stdout),
  }
}

/** The directories that hold files of sandboxes. Prepared systems, caches and empty directories stay. */
const KEPT = ["sandboxes", "exits", "runtime", "sockets", "network", "damaged"]

/** Synchronous: the kernel answers from memory, at a quarter of what other threads take to ask it. */
const countProcesses = (marks: readonly string[]): number => {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name))
  return pids.filter((pid) => {
    if (Number(pid) === process.pid) return false
    try {
      const isMarked = ["cgroup", "cmdline"].some((file) => {
        const text = readFileSync(`/proc/${pid}/${file}`, "utf8")
        return marks.some((mark) => text.includes(mark))
      })
      // A zombie has ended, though its parent has not reaped it yet.
      return isMarked && identifyProcess(Number(pid)) !== undefined
    } catch {
      return false
    }
  }).length
}

/** The devices of this process's network namespace. /sys would tell of the one that it was mounted in. */
const readDevices = async (): Promise<string[]> =>
  [...(await readFile("/proc/net/dev", "utf8")).matchAll(/^\s*([^\s:]+):/gm)].map(
    ([, device = ""]) => device,
  )

const lines = (text: string) => text.split("\n").filter((line) => line !== "").length
const linesWith = (text: string, mark: string) =>
  text.split("\n").filter((line) => line.includes(mark)).length
