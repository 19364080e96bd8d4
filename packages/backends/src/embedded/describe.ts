import type { LimitName } from "@berth/protocol/limits"
import type { UnheldLimit } from "@berth/protocol/sandbox"
import type { BackendDescription } from "../backend.ts"
import { hasMapping, type IdMapping, type NoIdMapping } from "./ids/mapping.ts"
import type { Parts } from "./parts.ts"

type Described = Pick<Parts, "cgroups" | "runtime" | "apart" | "idMapping" | "mount">

/** Describes what this host holds sandboxes to, and which fences do not stand. */
export const describeHost = ({
  cgroups,
  runtime,
  apart,
  idMapping,
  mount,
}: Described): BackendDescription => ({
  backend: "embedded",
  engine: `${runtime.name} ${runtime.version}`,
  pause: cgroups.held.pause.held,
  limits: {
    memoryBytes: cgroups.held.memoryBytes,
    cpus: cgroups.held.cpus,
    pids: cgroups.held.pids,
    openFiles: { held: true },
    tmpBytes: { held: true },
    // The server holds these limits by measuring files: see sandboxes/disk.
    diskBytes: { held: true },
    diskInodes: { held: true },
  },
  networks: ["none", "open"],
  layers: true,
  notes: [
    ...(runtime.joinsUserNamespaces
      ? []
      : [
          "What the kernel counts per user (inotify, message queues, signals) sandboxes share with root: install crun.",
        ]),
    ...idNotes(idMapping),
    ...(mount === undefined
      ? ["On ext4, sandboxes can use the blocks that are reserved for root: install perl."]
      : []),
    ...(apart.shared.size === 0
      ? []
      : [
          `Sandboxes see when others open files of ${[...apart.shared].sort().join(", ")}: no overlay can be mounted there.`,
        ]),
    ...(cgroups.canReclaim
      ? []
      : ["A paused sandbox keeps its memory: cgroup v2 with the memory controller takes it back."]),
    "The server measures the files of sandboxes, and halts one that takes more than limits.diskBytes or limits.diskInodes allow, or fills the disk of the data directory: it may have taken more by then.",
  ],
})

/** Notes on a host where sandboxes have no ranges of ids of their own. */
const idNotes = (mapping: IdMapping | NoIdMapping): string[] => {
  if (!hasMapping(mapping)) {
    return [
      `Sandboxes share one range of ids, and what the kernel counts for its users (pages of pipes, descriptors on their way): ${mapping.why}.`,
    ]
  }
  if (mapping.unmapped.size === 0) return []
  const directories = [...mapping.unmapped].sort().join(", ")
  return [
    `Sandboxes that have ${directories} mounted share one range of ids: the kernel does not map the ids there.`,
  ]
}

/** The limits that sandboxes are not held to on this host, and why. */
export const unheldLimits = (parts: Described): UnheldLimit[] =>
  Object.entries(describeHost(parts).limits).flatMap(([limit, held]) =>
    held.held ? [] : [{ limit: limit as LimitName, why: held.why }],
  )
