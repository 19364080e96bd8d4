import type { Differences } from "../../testing/attempt.ts"

/**
 * The acts that an engine without user namespaces allows inside beyond the common list. docs/SECURITY.md repeats them.
 */
export const DIFFERENCES: Differences = {
  "change the devices that it shares with the host": {
    sees: ["ok"],
    why: "it shares none: its /dev has nodes of its own, and the host's keep their owner and mode",
  },
  "become a user of the host": {
    sees: ["ok", "EPERM"],
    why: "without a user namespace every id inside is the host's id, and root may take any; what it owns lies in the sandbox's own directories",
  },
  "open terminals without end": {
    sees: ["ok"],
    why: "the engine sets no number: one sandbox can take those of all others, while the host keeps its own",
  },
  "use up resources that the kernel counts per user": {
    sees: [],
    why: "every id inside is the host's: instances of inotify are counted together with those of the host's root and of its user 1000, and nothing bounds them; so are queued signals, timers and message queues, of which all sandboxes together have 1,024 and 400 KiB, less than the host's own limits",
  },
  "use up resources that the kernel counts per user id of the host": {
    sees: [],
    why: "every id inside is the host's: pages of pipes, descriptors on their way and watches of epoll are counted together with those of the host's user of that number and of every other sandbox; the host's root is exempt",
  },
}

/** Like DIFFERENCES, on an engine with user namespaces. */
export const USER_NAMESPACE_DIFFERENCES: Differences = {
  "make a device and open it": {
    sees: ["EPERM", "EROFS"],
    why: "its /dev is read-only as well",
  },
  "use up resources that the kernel counts per user": {
    sees: [],
    why: "the engine makes its user namespaces as the host's root: instances of inotify are counted together with root's and those of other sandboxes, and nothing bounds them; queued signals, timers and message queues are, too, within the bounds above",
  },
  "use up resources that the kernel counts per user id of the host": {
    sees: [],
    why: "the engine gives all of its sandboxes one range of ids: pages of pipes, descriptors on their way and watches of epoll are counted for all of them together, apart from those of the host's users, and one sandbox can take what the others need",
  },
}
