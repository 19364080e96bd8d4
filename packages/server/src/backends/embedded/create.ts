import { mkdir, readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxSpec, UnheldLimit } from "@berth/protocol/sandbox"
import { makeBundle } from "./bundle.ts"
import type { Cgroup } from "./cgroups/cgroups.ts"
import { createUnderConmon } from "./conmon.ts"
import { type FstabEntry, fstab } from "./fstab.ts"
import type { Parts } from "./parts.ts"
import { identifyProcess, type ProcessIdentity } from "./process.ts"
import { removeSandbox } from "./remove.ts"
import type { SandboxPaths, SandboxState } from "./state.ts"
import { resolveMounts } from "./system/mount-sources.ts"
import { makePrivateDirectories } from "./system/private-directories.ts"
import { writeSandboxFiles } from "./system/sandbox-files.ts"
import { makeUserNamespace, type UserNamespace } from "./user-namespace.ts"

/** How long undoing a failed creation may take; the caller's own deadline may be over by then. */
const UNDO_DEADLINE_MS = 15_000

/**
 * Makes a sandbox, up to the moment before its first process runs. Its state is on disk before anything
 * else is, so that a crash at any line leaves something that `recover` finds; a failure undoes all of it.
 */
export const createSandbox = async (
  parts: Parts,
  spec: SandboxSpec,
  unheldLimits: readonly UnheldLimit[],
  signal: AbortSignal,
): Promise<SandboxState> => {
  const begun: SandboxState = {
    version: 1,
    spec,
    progress: "creating",
    createdAt: new Date().toISOString(),
    unheldLimits: [...unheldLimits],
  }
  await parts.states.begin(begun)
  try {
    const created = await build(parts, begun, signal)
    await parts.states.write(created)
    return created
  } catch (failure) {
    await removeSandbox(parts, begun, AbortSignal.timeout(UNDO_DEADLINE_MS))
    throw failure
  }
}

const build = async (
  parts: Parts,
  begun: SandboxState,
  signal: AbortSignal,
): Promise<SandboxState> => {
  const { sandbox } = begun.spec.identity
  await parts.at("create.cgroup")
  const userNamespace = parts.runtime.joinsUserNamespaces
    ? makeUserNamespace({ sandbox, idBase: parts.idBase }, signal)
    : Promise.resolve(undefined)
  try {
    return await buildIn(parts, begun, userNamespace, signal)
  } finally {
    await userNamespace.then(
      (made) => made?.release(),
      () => {},
    )
  }
}

const buildIn = async (
  parts: Parts,
  begun: SandboxState,
  userNamespace: Promise<UserNamespace | undefined>,
  signal: AbortSignal,
): Promise<SandboxState> => {
  const { states, cgroups, network } = parts
  const { identity, config } = begun.spec
  const { sandbox } = identity
  const paths = states.paths(sandbox)
  const [cgroup, nameservers, namespace] = await Promise.all([
    cgroups.create(sandbox, config.limits),
    reserveNetwork(parts, begun.spec, signal),
    userNamespace,
  ])
  signal.throwIfAborted()
  await parts.at("create.bundle")
  const made = { cgroup, nameservers, paths, userNamespace: namespace?.path }
  const bundled = await writeBundle(parts, begun, made, signal)
  await parts.at("create.runtime")
  const init = await startMonitor(parts, begun.spec, { cgroup, paths }, signal)
  await parts.at("create.network")
  if (config.network.kind === "open") {
    await network.attach(sandbox, init.pid, config.network.allow, signal)
  }
  await parts.at("create.done")
  const monitor = await readMonitor(paths)
  if (config.hardening.seccomp === "default") await parts.filter.learnFrom(sandbox)
  return { ...begun, ...bundled, progress: "created", init, ...(monitor && { monitor }) }
}

const reserveNetwork = async (
  { network }: Parts,
  { identity, config }: SandboxSpec,
  signal: AbortSignal,
): Promise<string[]> => {
  if (config.network.kind === "none") return []
  await network.ensure(signal)
  return [(await network.reserve(identity.sandbox)).resolver]
}

const writeBundle = async (
  parts: Parts,
  { spec, unheldLimits }: SandboxState,
  made: {
    cgroup: Cgroup
    nameservers: readonly string[]
    paths: SandboxPaths
    userNamespace: string | undefined
  },
  signal: AbortSignal,
): Promise<Pick<SandboxState, "system" | "unheldLimits">> => {
  const { identity, config } = spec
  const { cgroup, nameservers, paths, userNamespace } = made
  const { idBase } = parts
  const hostname = identity.sandbox
  const mounts = await resolveMounts({
    mounts: config.mounts,
    cachePath: (cache) => parts.caches.path(identity.workspace, cache),
    stackPath: (stack) => join(paths.stacks, stack),
    keepOut: [parts.directory],
  })
  const mountTargets = mounts.map(({ target }) => target)
  const [system] = await Promise.all([
    parts.systems.prepare(config.system, mountTargets, signal),
    makePrivateDirectories(paths, { idBase, mountTargets }),
    writeSandboxFiles(paths.etc, { hostname, nameservers }),
    mkdir(paths.bundle, { mode: 0o700 }),
  ])
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
  const overlays = await placeStacks(spec, paths)
  const root = { source: system.root, target: parts.rootPlace, type: "none", options: ["bind"] }
  await Promise.all([
    writeFile(join(paths.bundle, "config.json"), JSON.stringify(bundle.config), { mode: 0o600 }),
    writeFile(paths.mounts, fstab([root, ...overlays]), { mode: 0o600 }),
  ])
  return { system: system.key, unheldLimits: [...unheldLimits, ...bundle.unheldLimits] }
}

/** Makes the places at which the runtime's mount namespace gets the stacks, and says what goes there. */
const placeStacks = async (
  { config, overlays = [] }: SandboxSpec,
  { stacks }: SandboxPaths,
): Promise<FstabEntry[]> => {
  const wanted = config.mounts.filter((mount) => mount.kind === "stack")
  return Promise.all(
    wanted.map(async ({ stack }) => {
      const overlay = overlays.find((each) => each.stack === stack)
      if (overlay === undefined) {
        throw new BerthError("input.invalid", `there is no overlay for the stack ${stack}`, {
          details: { path: "overlays", missing: stack },
        })
      }
      const target = join(stacks, stack)
      await mkdir(target, { recursive: true, mode: 0o700 })
      return { source: "overlay", target, type: "overlay", options: overlay.options }
    }),
  )
}

/** The directory that the overlays' options are relative to. */
const baseOf = ({ overlays = [] }: SandboxSpec): string => overlays[0]?.base ?? "/"

const startMonitor = async (
  { runtime, tools, states }: Parts,
  spec: SandboxSpec,
  { cgroup, paths }: { cgroup: Cgroup; paths: SandboxPaths },
  signal: AbortSignal,
): Promise<ProcessIdentity> => {
  const { sandbox } = spec.identity
  const pid = await createUnderConmon(
    {
      ...paths,
      sandbox,
      conmon: tools.conmon,
      runtime: runtime.creating(cgroup.joinFiles, { base: baseOf(spec), table: paths.mounts }),
      exits: states.exits,
      sockets: states.sockets,
    },
    signal,
  )
  const init = await identifyProcess(pid)
  if (init !== undefined) return init
  throw new BerthError("backend.engine_failed", "the sandbox's first process ended at once", {
    details: { sandbox, pid },
  })
}

const readMonitor = async ({ monitorPid }: SandboxPaths): Promise<ProcessIdentity | undefined> =>
  identifyProcess(Number(await readFile(monitorPid, "utf8")))
