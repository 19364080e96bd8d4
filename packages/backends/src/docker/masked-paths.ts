/**
 * Paths of /proc and /sys that a sandbox cannot read: the engine's own list, and those that tell of the kernel's
 * memory, which root may read where the engine has no user namespaces.
 */
export const MASKED_PATHS = [
  ...["/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys"],
  ...["/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list"],
  ...[
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/devices/virtual/dmi",
    "/sys/firmware",
  ],
  ...["/proc/config.gz", "/proc/kallsyms", "/proc/kmsg", "/proc/modules"],
  ...["/proc/kpagecgroup", "/proc/kpagecount", "/proc/kpageflags", "/proc/pagetypeinfo"],
  ...["/proc/slabinfo", "/proc/vmallocinfo", "/proc/zoneinfo"],
  ...["/sys/kernel/debug", "/sys/kernel/notes", "/sys/kernel/tracing"],
]
