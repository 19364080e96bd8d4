import type { Differences } from "../../testing/attempt.ts"

/** Where an engine without user namespaces lets more happen inside than is listed. docs/SECURITY.md repeats it. */
export const DIFFERENCES: Differences = {
  "change the devices that it shares with the host": {
    sees: ["ok"],
    why: "it shares none: its /dev has nodes of its own, and the host's keep their owner and mode",
  },
  "become a user of the host": {
    sees: ["ok", "EPERM"],
    why: "without a user namespace every id inside is the host's id, and root may take any; what it owns lies in the sandbox's own directories",
  },
  "use up what the kernel counts per user": {
    sees: [],
    why: "root inside is the host's root: instances of inotify, message queues, queued signals and timers are counted together with it",
  },
}
