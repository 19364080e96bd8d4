import { readFile, rmdir } from "node:fs/promises"
import { dirname, join } from "node:path"

/**
 * Removes the empty cgroups that runc makes in every hierarchy of the host, also in those that Berth does not
 * use, and of which its own `delete` leaves the parents.
 */
export const removeRuncCgroups = async (cgroupPath: string): Promise<void> => {
  const mounts = (await readFile("/proc/self/mounts", "utf8"))
    .split("\n")
    .map((line) => line.split(" "))
    .filter(([, , type]) => type === "cgroup" || type === "cgroup2")
    .map(([, target = ""]) => target)
  await Promise.all(
    mounts.map(async (mount) => {
      const leaf = join(mount, cgroupPath)
      // One that is in use, or not there, is somebody else's concern.
      for (const directory of [leaf, dirname(leaf)]) await rmdir(directory).catch(() => {})
    }),
  )
}
