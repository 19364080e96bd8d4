import type { BackendDescription } from "../backend.ts"
import type { Engine } from "./engine/engine.ts"
import type { EngineInfo } from "./info.ts"

/** Describes an engine's abilities, with notes for a person to read. */
export const describeEngine = (
  { version }: Engine,
  info: EngineInfo,
  /** The reason why no fence can be made on this host; undefined if it can. */
  unfenced: string | undefined,
): BackendDescription => {
  const here = info.local ? onThisHost(unfenced) : ELSEWHERE
  const { notes, ...capabilities } = here
  return {
    backend: "docker",
    engine: `docker ${version.engine} (API ${version.api.slice(1)})`,
    pause: true,
    limits: info.limits,
    ...capabilities,
    notes: [...generalNotes(info), ...notes],
  }
}

type Place = Pick<BackendDescription, "networks" | "layers" | "notes">

const onThisHost = (unfenced: string | undefined): Place => ({
  networks: unfenced === undefined ? ["none", "open"] : ["none"],
  layers: true,
  notes: [
    ...(unfenced === undefined
      ? []
      : [`There is no network \`open\` without a fence: ${unfenced}`]),
    "Of a read-only directory, what is mounted below it on the host does not appear inside.",
    "The server measures the files of sandboxes, and halts one that takes more than limits.diskBytes or limits.diskInodes allow, or fills the disk of the data directory: it may have taken more by then.",
  ],
})

const ELSEWHERE: Place = {
  networks: ["open"],
  layers: false,
  notes: [
    "The engine is elsewhere: it does not work on this host's kernel, or does not see its files.",
    "The image's own users are all that there are: unless it has one with the id 1000, agents run as a user without a name.",
    "Files are plain volumes of the engine, one for each tree of a workspace: there are no layers, snapshots or forks. They go with their workspace.",
    "The connection to a sandbox is a port that its token guards: on the loopback, or on the address by which the engine is reached if that is another machine's; what goes over it is not encrypted.",
    "No rules can be set there. Neighbours are kept apart by the engine, but the network `open` reaches private ranges and the engine's own host; there is no `none`, as the link needs a network.",
  ],
}

const generalNotes = ({
  userNamespaces,
  ownDevices,
  local,
  seccomp,
  liveRestore,
}: EngineInfo): string[] => [
  liveRestore
    ? "Sandboxes go on while the engine restarts (live-restore). Engines before 23 keep the empty volumes of a sandbox that did until they start once more; they are removed then."
    : "Sandboxes end when the engine does: it has no live-restore. Their files stay.",
  ...(userNamespaces
    ? [
        "The engine gives all sandboxes one range of ids: what the kernel counts for a user's number (pages of pipes, descriptors on their way through sockets, watches of epoll), one sandbox can use up for the others.",
      ]
    : [
        "Root inside is the host's root without most of its rights: the engine has no user namespaces (userns-remap).",
        "What the kernel counts per user (instances of inotify, message queues, queued signals, timers) is counted together with the host's root: one sandbox can use it up.",
      ]),
  ...(userNamespaces && !ownDevices && local
    ? [
        "The nodes of /dev are the host's own: a sandbox sees when they are opened, and can lock them. The data directory cannot hold others.",
      ]
    : []),
  ...(seccomp ? [] : ["The engine filters no system calls: its host has no seccomp."]),
]
