import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { mountCommand } from "@berth/host/mounts/mounter"
import { settleAll } from "@berth/host/settle-all"
import { BerthError } from "@berth/protocol/errors"
import type { InstallationId } from "@berth/protocol/ids"
import type { Architecture } from "../seccomp/profile.ts"
import { openApart } from "./apart.ts"
import { openCaches } from "./caches.ts"
import { openCgroups } from "./cgroups/open.ts"
import { openLaunchers } from "./conmon.ts"
import { openExits } from "./exits.ts"
import { hasMapping, openIdMapping } from "./ids/mapping.ts"
import { AGENT_ID, idBase } from "./ids/range.ts"
import { openIdRanges } from "./ids/ranges.ts"
import { openSandboxIds } from "./ids/sandbox-ids.ts"
import { createNetwork } from "./network/network.ts"
import type { Parts } from "./parts.ts"
import { openReclaims } from "./reclaims.ts"
import { openRuntime } from "./runtime.ts"
import { makeRootPlace, runtimeMounts } from "./runtime-mounts.ts"
import { openCompiledFilter } from "./seccomp/compiled.ts"
import { StateDirectory } from "./state.ts"
import { openSystems } from "./system/systems.ts"
import { findTools } from "./tools.ts"

export interface PartsOptions {
  readonly installation: InstallationId
  /** The directory for all of this backend's files: sandboxes, caches, the runtime's state. */
  readonly directory: string
  /** The search path for the host's programs. Default: the standard places. */
  readonly path?: string
  /** Called before each step that a crash could interrupt: tests crash there. */
  readonly at?: (step: string) => void | Promise<void>
}

/** Finds the host's programs and opens the parts that all operations share. */
export const openParts = async (options: PartsOptions, signal: AbortSignal): Promise<Parts> => {
  const { installation, directory } = options
  const tools = await findTools(options.path)
  const states = new StateDirectory(directory)
  await states.prepare()
  const base = idBase(installation)
  const architecture = nativeArchitecture()
  const mount = mountCommand(tools.perl, architecture)
  const [cgroups, runtime, apart, idMapping] = await settleAll([
    openCgroups({ group: `berth-${installation}` }, signal),
    openRuntime({ ...tools.runtime, root: states.runtimeRoot }, signal),
    openApart(directory),
    openIdMapping({ directory, mount, onDisk: base }, signal),
  ])
  const idRanges = openIdRanges(base)
  return {
    states,
    exits: openExits(states.exits),
    tools,
    runtime,
    cgroups,
    reclaims: openReclaims((sandbox, within) => cgroups.open(sandbox).reclaim(within)),
    idBase: base,
    idRanges,
    idMapping,
    mount,
    sandboxIds: openSandboxIds({
      onDisk: base,
      ranges: idRanges,
      isMapped: hasMapping(idMapping),
      joinsUserNamespaces: runtime.joinsUserNamespaces,
    }),
    directory,
    architecture,
    maxOpenFiles: await readMaxOpenFiles(),
    rootPlace: await makeRootPlace(),
    apart,
    runtimeMounts: await runtimeMounts(runtime, tools.runtime.path, apart),
    systems: openSystems({ directory: join(directory, "systems"), init: tools.tini }),
    filter: openCompiledFilter(states.runtimeRoot),
    launchers: openLaunchers(),
    network: createNetwork({ installation, directory: join(directory, "network") }),
    caches: openCaches(join(directory, "caches"), base + AGENT_ID),
    at: async (step) => options.at?.(step),
  }
}

const nativeArchitecture = (): Architecture => {
  const { arch } = process
  if (arch === "x64" || arch === "arm64") return arch
  throw new BerthError("backend.unsupported", `there is no system call profile for ${arch}`, {
    details: { architecture: arch, supported: ["x64", "arm64"] },
  })
}

const readMaxOpenFiles = async (): Promise<number> => {
  const limits = await readFile("/proc/self/limits", "utf8")
  const hard = /^Max open files\s+\S+\s+(\S+)/m.exec(limits)?.[1]
  return hard === "unlimited" ? Number.MAX_SAFE_INTEGER : Number(hard)
}
