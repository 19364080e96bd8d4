import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { type FstabEntry, fstab } from "@berth/host/mounts/fstab"
import { mappedEntry } from "@berth/host/mounts/mapped"
import { writtenBy } from "@berth/host/mounts/written-by"
import { BerthError } from "@berth/protocol/errors"
import { TOOLBOX_TARGET } from "@berth/protocol/inside"
import type { Mount, SandboxSpec } from "@berth/protocol/sandbox"
import { isWithin } from "../within.ts"
import { makeBundle } from "./bundle.ts"
import type { Cgroup } from "./cgroups/cgroups.ts"
import { ID_COUNT } from "./ids/range.ts"
import type { Parts } from "./parts.ts"
import type { SandboxState } from "./state-file.ts"
import type { SandboxPaths } from "./state-paths.ts"
import { resolveMounts } from "./system/mount-sources.ts"
import type { Bind, PreparedSystem } from "./system/prepared.ts"
import { makePrivateDirectories } from "./system/private-directories.ts"
import { writeSandboxFiles } from "./system/sandbox-files.ts"

/** The file systems that a sandbox will have inside. */
export interface Inside {
  readonly system: PreparedSystem
  readonly mounts: readonly Bind[]
  /** Mounts that only the runtime sees, to be bound from there: mapped ids, stacks, and overlays over what is shared. */
  readonly mountedBefore: readonly FstabEntry[]
}

/** Checks and makes a sandbox's file systems: system tree, mounts, stacks, directories of its own. */
export const prepareInside = async (
  parts: Parts,
  spec: SandboxSpec,
  { paths, idBase }: { readonly paths: SandboxPaths; readonly idBase: number },
  signal: AbortSignal,
): Promise<Inside> => {
  const { identity, config } = spec
  const mounts = await resolveMounts({
    mounts: config.mounts,
    cachePath: (cache) => parts.caches.path(identity.workspace, cache),
    stackPath: (stack) => join(paths.stacks, stack),
    sharedDirectory: spec.sharedDirectory,
    keepOut: [parts.directory],
  })
  const mountTargets = mounts.map(({ target }) => target)
  const stacks = placeStacks(spec, paths, idBase)
  const map = { onDisk: parts.idBase, own: idBase, count: ID_COUNT }
  const mapped =
    map.own === map.onDisk
      ? []
      : withOwnedFiles(spec, mounts, paths).map((it) => mappedEntry(it, map))
  makePrivateDirectories(paths, { idBase: parts.idBase, mountTargets })
  const system = await parts.systems.prepare(config.system, mountTargets, signal)
  const root = await rootEntry(parts, system)
  const shared = await parts.apart.binds([...system.binds, ...mounts.filter(isToolbox)])
  const [toolbox] = shared.binds.slice(system.binds.length)
  return {
    system: { ...system, binds: shared.binds.slice(0, system.binds.length) },
    mounts: mounts.map((mount) => (isToolbox(mount) && toolbox ? toolbox : mount)),
    mountedBefore: [...mapped, root, ...stacks, ...shared.mounts],
  }
}

/**
 * Whether a mount is the toolbox, the one directory of the host that Berth itself brings into every sandbox. Others are
 * the user's choice.
 */
const isToolbox = ({ target, readOnly }: Bind): boolean => target === TOOLBOX_TARGET && readOnly

export const isHostDirectory = (mount: Mount): mount is Extract<Mount, { kind: "directory" }> =>
  mount.kind === "directory" && !isToolbox(mount)

/**
 * Every directory in which files can belong to the installation's range: its own ones, stacks, caches, the shared directory and the
 * user's mounts. A directory within another is mapped with it.
 */
const withOwnedFiles = (
  { overlays = [] }: SandboxSpec,
  mounts: readonly Bind[],
  { home, workspace, stacks }: SandboxPaths,
): string[] => {
  const bound = mounts.filter((bind) => !isToolbox(bind)).map(({ source }) => source)
  const targets = new Set(mounts.map(({ target }) => target))
  const own = [
    ...(targets.has("/home") ? [] : [home]),
    ...(targets.has("/workspace") ? [] : [workspace]),
  ]
  const all = new Set([...own, ...bound, ...overlays.map(({ base }) => base)])
  const candidates = [...all].filter((path) => !isWithin(path, stacks))
  return candidates.filter((path) => !candidates.some((it) => it !== path && isWithin(path, it)))
}

const rootEntry = async (
  { apart, rootPlace }: Parts,
  { root }: PreparedSystem,
): Promise<FstabEntry> =>
  (await apart.entry(root, rootPlace)) ?? {
    source: root,
    target: rootPlace,
    type: "none",
    options: ["bind"],
  }

/** Makes the places at which the runtime's mount namespace gets the stacks, and lists the mounts for them. */
const placeStacks = (
  { config, overlays = [] }: SandboxSpec,
  { stacks }: SandboxPaths,
  idBase: number,
): FstabEntry[] => {
  const wanted = config.mounts.filter((mount) => mount.kind === "stack")
  return wanted.map(({ stack }) => {
    const overlay = overlays.find((each) => each.stack === stack)
    if (overlay === undefined) {
      throw new BerthError("input.invalid", `there is no overlay for the stack ${stack}`, {
        details: { path: "overlays", missing: stack },
      })
    }
    const target = join(stacks, stack)
    mkdirSync(target, { recursive: true, mode: 0o700 })
    const options = [...overlay.options, writtenBy(idBase)]
    return { source: "overlay", target, type: "overlay", options }
  })
}

/** Everything that the bundle is written from. */
export interface Known extends Inside {
  readonly cgroup: Cgroup
  readonly nameservers: readonly string[]
  readonly idBase: number
  readonly userNamespace: string | undefined
}

/** Writes the runtime's input: the container's configuration, and the table of mounts that are made for it before. */
export const writeBundle = (
  parts: Parts,
  { spec, unheldLimits }: SandboxState,
  { system, mounts, mountedBefore, cgroup, nameservers, idBase, userNamespace }: Known,
  paths: SandboxPaths,
): Pick<SandboxState, "system" | "unheldLimits"> => {
  const hostname = spec.identity.sandbox
  const bundle = makeBundle({
    spec,
    system: { ...system, root: parts.rootPlace },
    mounts,
    directories: paths,
    files: paths,
    idBase,
    userNamespace,
    cgroupPath: cgroup.path,
    hostname,
    architecture: parts.architecture,
    maxOpenFiles: parts.maxOpenFiles,
    compiledFilter: parts.filter.current,
  })
  // Not synced, like the state: see StateDirectory.
  writeFileSync(join(paths.bundle, "config.json"), JSON.stringify(bundle.config), { mode: 0o600 })
  writeFileSync(paths.mounts, fstab([...parts.runtimeMounts, ...mountedBefore]), { mode: 0o600 })
  writeSandboxFiles(paths.etc, { hostname, nameservers })
  return { system: system.key, unheldLimits: [...unheldLimits, ...bundle.unheldLimits] }
}
