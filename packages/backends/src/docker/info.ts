import { release } from "node:os"
import type { LimitName } from "@berth/protocol/limits"
import type { UnheldLimit } from "@berth/protocol/sandbox"
import { z } from "zod"
import type { BackendDescription } from "../backend.ts"
import { holdsDevices } from "./devices.ts"
import type { Engine } from "./engine/engine.ts"
import { seesHere } from "./far/sees-here.ts"

/** The parts of the engine's `/info` that matter here. */
const InfoAnswer = z.object({
  KernelVersion: z.string(),
  DockerRootDir: z.string(),
  MemoryLimit: z.boolean().default(false),
  /** Reported with cgroup v1 alone. */
  KernelMemoryTCP: z.boolean().default(false),
  PidsLimit: z.boolean().default(false),
  CpuCfsQuota: z.boolean().default(false),
  LiveRestoreEnabled: z.boolean().default(false),
  SecurityOptions: z.array(z.string()).nullish(),
})

export interface EngineInfo {
  readonly limits: BackendDescription["limits"]
  /** Whether the engine works on this very kernel and sees this host's files. */
  readonly local: boolean
  /** The directory of the engine's own data. */
  readonly dataRoot: string
  readonly seccomp: boolean
  /** The host's id of root inside: not 0 where the engine has user namespaces. */
  readonly idBase: number
  readonly userNamespaces: boolean
  /** Whether sandboxes are given a /dev of their own, in the place of the host's nodes. */
  readonly ownDevices: boolean
  /** Whether sandboxes go on while the engine restarts. */
  readonly liveRestore: boolean
  /** Whether the engine's host can bound the memory of sockets, which it does not count among the rest. */
  readonly countsSockets: boolean
}

/** Reads the engine's info. `directory` is one of this host's, to find out whether the engine sees it. */
export const readInfo = async (
  engine: Engine,
  directory: string,
  signal: AbortSignal,
): Promise<EngineInfo> => {
  const info = await engine.read({ method: "GET", path: "/info" }, InfoAnswer, signal)
  const security = info.SecurityOptions ?? []
  const userNamespaces = security.some((option) => /^name=(userns|rootless)\b/.test(option))
  const local = info.KernelVersion === release() && (await seesHere(engine, directory, signal))
  const idBase = userNamespaces ? remappedRoot(info.DockerRootDir) : 0
  return {
    limits: {
      memoryBytes: held(info.MemoryLimit, "memory"),
      cpus: held(info.CpuCfsQuota, "processor time"),
      pids: held(info.PidsLimit, "processes"),
      openFiles: { held: true },
      tmpBytes: { held: true },
      diskBytes: measured(local),
      diskInodes: measured(local),
    },
    local,
    dataRoot: info.DockerRootDir,
    seccomp: security.some((option) => option.startsWith("name=seccomp")),
    userNamespaces,
    idBase,
    liveRestore: info.LiveRestoreEnabled,
    countsSockets: info.KernelMemoryTCP,
    ownDevices: local && idBase > 0 && (await holdsDevices(directory, signal)),
  }
}

export const unheldLimits = ({ limits }: EngineInfo): UnheldLimit[] =>
  Object.entries(limits).flatMap(([limit, held]) =>
    held.held ? [] : [{ limit: limit as LimitName, why: held.why }],
  )

const held = (works: boolean, what: string) =>
  works
    ? { held: true as const }
    : { held: false as const, why: `the engine's host does not limit ${what} per cgroup` }

/** The server itself holds the limits of the disk on this host, by measuring files. */
const measured = (isLocal: boolean) =>
  isLocal
    ? { held: true as const }
    : { held: false as const, why: "the engine has a disk of its own, which nobody measures" }

/** The engine's id base, from the name of its data directory: with user namespaces, it is called `100000.100000`. */
const remappedRoot = (rootDirectory: string): number =>
  Number(/\/(\d+)\.\d+$/.exec(rootDirectory)?.[1] ?? 0)
