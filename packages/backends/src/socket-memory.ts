/**
 * The memory that a sandbox's TCP and UDP sockets may hold in packets, where the kernel does not count it among the rest (cgroup v1). All
 * sockets of the host share one bound on it (`net.ipv4.tcp_mem`, about a tenth of the memory), past which every connection is slow.
 */
export const socketMemoryBytes = (memoryBytes: number): number =>
  Math.min(Math.floor(memoryBytes / 8), MOST_BYTES)

/** More than a browser, a package manager and a build have in flight together. */
const MOST_BYTES = 64 * 1024 * 1024
