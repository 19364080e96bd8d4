/** Large enough for the store's files, small enough to be filled at once. */
const DISK_BYTES = 4 * 1024 * 1024

/**
 * Runs a command with a small disk of its own at `mountPoint`. The mount lives in the command's own namespace, so it is
 * gone with the command, however that ends, and it does not need root.
 */
export const onSmallDisk = (mountPoint: string): readonly string[] => [
  ...["unshare", "--user", "--map-root-user", "--mount", "--propagation=private"],
  ...["sh", "-c", `mount -t tmpfs -o size=${DISK_BYTES} tmpfs "$0" && exec "$@"`, mountPoint],
]
