import { readFileSync } from "node:fs"
import { settleAll } from "@berth/host/settle-all"
import { timeoutSignal } from "@berth/host/timeout-signal"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { SandboxSpec, UnheldLimit } from "@berth/protocol/sandbox"
import { orNoRoom } from "../no-room.ts"
import { type Monitor, startConmon } from "./conmon.ts"
import { hasMapping } from "./ids/mapping.ts"
import { releaseNamespace, type SandboxIds } from "./ids/sandbox-ids.ts"
import type { Parts } from "./parts.ts"
import { isHostDirectory, prepareInside, writeBundle } from "./prepare.ts"
import { identifyProcess, type ProcessIdentity } from "./process.ts"
import { removeSandbox } from "./remove.ts"
import type { SandboxState } from "./state-file.ts"
import type { SandboxPaths } from "./state-paths.ts"

/** How long undoing a failed creation may take; the caller's own deadline may be over by then. */
const UNDO_DEADLINE_MS = 15_000

/**
 * Makes a sandbox, up to the moment before its first process runs. Its state is on disk before anything else is, so
 * that a crash at any line leaves something that `repair` finds; a failure undoes all of it.
 */
export const createSandbox = async (
  parts: Parts,
  spec: SandboxSpec,
  unheldLimits: readonly UnheldLimit[],
  signal: AbortSignal,
): Promise<SandboxState> => {
  const ids = parts.sandboxIds.take(await canBeMapped(parts, spec), signal)
  const begun: SandboxState = {
    version: 1,
    spec,
    progress: "creating",
    ...(ids.base !== parts.idBase && { idBase: ids.base }),
    createdAt: new Date().toISOString(),
    unheldLimits: [...unheldLimits],
  }
  try {
    await parts.states.begin(begun)
  } catch (failure) {
    parts.idRanges.free(ids.base)
    await releaseNamespace(ids.userNamespace)
    throw failure
  }
  try {
    const created = await build(parts, begun, ids, signal)
    await parts.states.write(created)
    return created
  } catch (thrown) {
    // The disk is looked at before anything is given back.
    const failure = await orDiskFull(parts, thrown)
    await removeSandbox(parts, begun, timeoutSignal(UNDO_DEADLINE_MS))
    throw failure
  }
}

const orDiskFull = async ({ directory }: Parts, thrown: unknown): Promise<unknown> =>
  thrown instanceof BerthError && thrown.code === "backend.engine_failed"
    ? await orNoRoom(thrown, directory)
    : thrown

/** Whether the owners of all directories that the sandbox is given can be mapped to a range of its own. */
const canBeMapped = async ({ idMapping }: Parts, { config }: SandboxSpec): Promise<boolean> => {
  if (!hasMapping(idMapping)) return false
  const directories = config.mounts.filter(isHostDirectory)
  const works = await Promise.all(directories.map(({ source }) => idMapping.works(source)))
  return works.every((each) => each)
}

const build = async (
  parts: Parts,
  begun: SandboxState,
  ids: SandboxIds,
  signal: AbortSignal,
): Promise<SandboxState> => {
  const { userNamespace } = ids
  try {
    await parts.at("create.monitor")
    const monitor = startMonitor(parts, begun.spec, signal)
    try {
      return await buildUnder(parts, begun, { monitor, ids }, signal)
    } finally {
      monitor.release()
    }
  } finally {
    await releaseNamespace(userNamespace)
  }
}

interface Begun {
  readonly monitor: Monitor
  readonly ids: SandboxIds
}

const buildUnder = async (
  parts: Parts,
  begun: SandboxState,
  { monitor, ids }: Begun,
  signal: AbortSignal,
): Promise<SandboxState> => {
  const { states, cgroups, network } = parts
  const { identity, config } = begun.spec
  const { sandbox } = identity
  const paths = states.paths(sandbox)
  await parts.at("create.cgroup")
  const [cgroup, nameservers, namespace, inside] = await settleAll([
    cgroups.create(sandbox, config.limits),
    reserveNetwork(parts, begun.spec, signal),
    ids.userNamespace,
    prepareInside(parts, begun.spec, { paths, idBase: ids.base }, signal),
  ])
  signal.throwIfAborted()
  await parts.at("create.bundle")
  const made = {
    ...inside,
    cgroup,
    nameservers,
    idBase: ids.base,
    userNamespace: namespace?.path,
  }
  const bundled = writeBundle(parts, begun, made, paths)
  await parts.at("create.runtime")
  const init = identifyInit(sandbox, await monitor.create())
  await parts.at("create.network")
  if (config.network.kind === "open") {
    await network.attach(sandbox, init.pid, config.network.allow, signal)
  }
  await parts.at("create.done")
  if (config.hardening.seccomp === "default") await parts.filter.learnFrom(sandbox)
  const kept = readMonitor(paths)
  return { ...begun, ...bundled, progress: "created", init, ...(kept && { monitor: kept }) }
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

/** The directory that the overlays' options are relative to. */
const baseOf = ({ overlays = [] }: SandboxSpec): string => overlays[0]?.base ?? "/"

/**
 * Starts conmon before the sandbox's files are there: the runtime waits for the word to create, and looks at the paths
 * only then.
 */
const startMonitor = (
  { runtime, tools, launchers, states, cgroups, mount }: Parts,
  spec: SandboxSpec,
  signal: AbortSignal,
): Monitor => {
  const { sandbox } = spec.identity
  const paths = states.paths(sandbox)
  const mounts = {
    base: baseOf(spec),
    table: paths.mounts,
    ...(mount !== undefined && { mount }),
  }
  return startConmon(
    launchers,
    {
      ...paths,
      sandbox,
      conmon: tools.conmon,
      runtime: runtime.creating(cgroups.open(sandbox).joinFiles, mounts),
      exits: states.exits,
      sockets: states.sockets,
    },
    signal,
  )
}

const identifyInit = (sandbox: SandboxId, pid: number): ProcessIdentity => {
  const init = identifyProcess(pid)
  if (init !== undefined) return init
  throw new BerthError("backend.engine_failed", "the sandbox's first process ended at once", {
    details: { sandbox, pid },
  })
}

const readMonitor = ({ monitorPid }: SandboxPaths): ProcessIdentity | undefined =>
  identifyProcess(Number(readFileSync(monitorPid, "utf8")))
