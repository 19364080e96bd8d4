import { spawnSync } from "node:child_process"

/** Large enough for the store's files, small enough to be filled at once. */
const DISK_BYTES = 4 * 1024 * 1024

/** As root, or as root of a user namespace where the kernel lets anyone have one. */
const NAMESPACE = [
  "unshare",
  "--mount",
  "--propagation=private",
  ...(process.getuid?.() === 0 ? [] : ["--map-root-user"]),
]

/** Why no disk can be mounted here; undefined where it can. */
export const whyNoSmallDisk = (): string | undefined => {
  const { error, status, stderr } = spawnSync(
    NAMESPACE[0] ?? "",
    [...NAMESPACE.slice(1), "mount", "-t", "tmpfs", "tmpfs", "/mnt"],
    { encoding: "utf8" },
  )
  return status === 0 ? undefined : `no mount namespace: ${error?.message ?? stderr.trim()}`
}

/**
 * Runs a command with a small disk of its own at `mountPoint`. The mount lives in the command's own
 * namespace, so it is gone with the command, however that ends.
 */
export const onSmallDisk = (mountPoint: string): readonly string[] => [
  ...NAMESPACE,
  ...["sh", "-c", `mount -t tmpfs -o size=${DISK_BYTES} tmpfs "$0" && exec "$@"`, mountPoint],
]
