import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { newId, type SandboxId } from "@berth/protocol/ids"
import { onTestFinished } from "vitest"
import { type CgroupMounts, parseCgroupMounts } from "../../../../host/cgroups/mounts.ts"
import type { CgroupLimits, Cgroups } from "../cgroups.ts"
import { withNested } from "../files.ts"
import { type CgroupsOptions, openCgroups } from "../open.ts"

const MIB = 1024 * 1024

/** Small enough that a test reaches each within moments. */
export const SMALL: CgroupLimits = { memoryBytes: 48 * MIB, cpus: 0.2, pids: 24 }

/** Ends a call that hangs before the test's own timeout does, so that its error is seen. */
export const soon = (): AbortSignal => AbortSignal.timeout(20_000)

export const hostMounts = async (): Promise<CgroupMounts> =>
  parseCgroupMounts(await readFile("/proc/self/mounts", "utf8"))

/** Whether this process may make cgroups under v1 here, which is what most tests need. */
export const v1Here = process.getuid?.() === 0 && (await hostMounts()).v1.size === 5
/** The v2 hierarchy, with whatever controllers it has. */
export const v2Here = process.getuid?.() === 0 ? (await hostMounts()).v2 : undefined

/** Every cgroup of a group in every hierarchy of this host. */
export const leftovers = async (group: string): Promise<string[]> => {
  const { v1, v2 } = await hostMounts()
  const mounts = [...new Set([...v1.values(), ...(v2 === undefined ? [] : [v2])])]
  const trees = await Promise.all(mounts.map((mount) => withNested(join(mount, group))))
  return trees.flat()
}

/** The cgroups of an installation of its own; after the test, whatever is left is killed and removed. */
export const openHere = async (
  options: Partial<CgroupsOptions> = {},
): Promise<{ cgroups: Cgroups; group: string }> => {
  const group = `berth-${newId.installation()}`
  const cgroups = await openCgroups({ group, ...options }, soon())
  onTestFinished(async () => {
    for (const sandbox of await cgroups.list()) await removeByForce(cgroups, sandbox)
  })
  return { cgroups, group }
}

const removeByForce = async (cgroups: Cgroups, sandbox: SandboxId): Promise<void> => {
  const cgroup = cgroups.open(sandbox)
  await cgroup.kill(soon())
  await cgroup.remove(soon())
}

/** A mounts file that shows this host's v2 hierarchy and nothing else. */
export const onlyV2 = async (): Promise<string> =>
  mountsFile(`cgroup2 ${v2Here} cgroup2 rw,relatime 0 0\n`)

export const mountsFile = async (text: string): Promise<string> => {
  const path = join(await temporaryDirectory(), "mounts")
  await writeFile(path, text)
  return path
}

export const temporaryDirectory = async (): Promise<string> => {
  const directory = await mkdtemp(join(tmpdir(), "berth-cgroups-"))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  return directory
}
