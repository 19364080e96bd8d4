import { chmod, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { parseCgroupMounts } from "@berth/host/cgroups/mounts"
import { newId, type SandboxId } from "@berth/protocol/ids"
import { onTestFinished } from "vitest"
import type { CgroupLimits, Cgroups } from "../cgroups.ts"
import { withNested } from "../files.ts"
import { type CgroupsOptions, openCgroups } from "../open.ts"

/** Small enough that a test reaches each within moments. */
export const SMALL: CgroupLimits = { memoryBytes: 48 * 1024 * 1024, cpus: 0.2, pids: 24 }

/** Ends a call that hangs before the test's own timeout does, so that its error is seen. */
export const soon = (): AbortSignal => AbortSignal.timeout(20_000)

/** The hierarchies that this host really has. */
export const HOST = parseCgroupMounts(await readFile("/proc/self/mounts", "utf8"))

/** Every cgroup of a group in every hierarchy of this host. */
export const leftovers = async (group: string): Promise<string[]> => {
  const mounts = new Set([...HOST.v1.values(), ...(HOST.v2 === undefined ? [] : [HOST.v2])])
  const trees = await Promise.all([...mounts].map((mount) => withNested(join(mount, group))))
  return trees.flat()
}

/** Opens the cgroups of a new installation. After the test, remaining processes are killed and cgroups removed. */
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

/** Writes a file for `procMounts` or `procCgroup`. */
export const fileWith = async (text: string): Promise<string> => {
  const path = join(await temporaryDirectory(), "file")
  await writeFile(path, text)
  return path
}

export const temporaryDirectory = async (): Promise<string> => {
  const directory = await mkdtemp(join(tmpdir(), "berth-cgroups-"))
  onTestFinished(() => rm(directory, { recursive: true, force: true }))
  // Tests that go on as another user read files in it.
  await chmod(directory, 0o755)
  return directory
}

/** A mounts file that shows one v2 hierarchy and nothing else. */
export const onlyV2 = (mount = HOST.v2 ?? ""): Promise<string> =>
  fileWith(`cgroup2 ${mount} cgroup2 rw,relatime 0 0\n`)
