import { readFile, rmdir } from "node:fs/promises"
import { dirname, join } from "node:path"

/**
 * Removes the empty cgroups that runc makes in every hierarchy of the host, also in those that Berth does not use.
 * runc's own `delete` leaves their parents.
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
      // A cgroup that is in use, or does not exist, is no failure.
      for (const directory of [leaf, dirname(leaf)]) await rmdir(directory).catch(() => {})
    }),
  )
}
