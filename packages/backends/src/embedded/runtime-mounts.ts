import { mkdir, readFile, writeFile } from "node:fs/promises"
import { dirname } from "node:path"
import { parseCgroupMounts } from "@berth/host/cgroups/mounts"
import type { FstabEntry } from "@berth/host/mounts/fstab"
import type { Apart } from "./apart.ts"
import { RUNTIME_PLACE, type Runtime } from "./runtime.ts"

/**
 * An empty directory that every user can pass through to. The runtime enters a sandbox's root as the
 * sandbox's own root user, who may not pass through the data directory; in the runtime's mount namespace the
 * system tree lies here instead.
 */
export const makeRootPlace = async (): Promise<string> => {
  const place = "/run/berth/root"
  await mkdir(place, { recursive: true, mode: 0o755 })
  return place
}

/** The mounts of the runtime's own mount namespace, the same for every sandbox. */
export const runtimeMounts = async (
  { name }: Pick<Runtime, "name">,
  path: string,
  apart: Pick<Apart, "entry">,
): Promise<FstabEntry[]> => [
  await placeRuntime(path),
  ...(await coverDevices(apart)),
  ...(name === "crun" ? await hideHybridMount() : []),
]

/** Mounts the runtime's binary where nothing that it starts could write to it: see `OUT_OF_REACH_ENV`. */
const placeRuntime = async (path: string): Promise<FstabEntry> => {
  await mkdir(dirname(RUNTIME_PLACE), { recursive: true, mode: 0o755 })
  await writeFile(RUNTIME_PLACE, "", { flag: "a" })
  return { source: path, target: RUNTIME_PLACE, type: "none", options: ["bind", "ro"] }
}

/**
 * Mounts an overlay over /dev. In a user namespace no device can be made: the runtimes bind those of the /dev that they
 * see.
 */
const coverDevices = async ({ entry }: Pick<Apart, "entry">): Promise<FstabEntry[]> => {
  const overlay = await entry("/dev", "/dev")
  return overlay === undefined ? [] : [overlay]
}

/**
 * Covers a hybrid cgroup2 mount with an empty directory: crun refuses to work where it sees one beside v1 controllers.
 */
const hideHybridMount = async (): Promise<FstabEntry[]> => {
  const { mode, v2 } = parseCgroupMounts(await readFile("/proc/self/mounts", "utf8"))
  if (mode !== "hybrid" || v2 === undefined) return []
  return [{ source: "tmpfs", target: v2, type: "tmpfs", options: ["ro", "size=4k"] }]
}
