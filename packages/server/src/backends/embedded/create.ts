import { readFileSync } from "node:fs"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { SandboxSpec, UnheldLimit } from "@berth/protocol/sandbox"
import { type Monitor, startConmon } from "./conmon.ts"
import type { Parts } from "./parts.ts"
import { prepareInside, writeBundle } from "./prepare.ts"
import { identifyProcess, type ProcessIdentity } from "./process.ts"
import { removeSandbox } from "./remove.ts"
import { settleAll } from "./settle-all.ts"
import type { SandboxPaths, SandboxState } from "./state.ts"
import type { UserNamespace } from "./user-namespace.ts"

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
  await parts.at("create.monitor")
  const monitor = startMonitor(parts, begun.spec, signal)
  const userNamespace = parts.runtime.joinsUserNamespaces
    ? parts.userNamespaces.take(signal)
    : Promise.resolve(undefined)
  try {
    return await buildUnder(parts, begun, { monitor, userNamespace }, signal)
  } finally {
    monitor.release()
    await userNamespace.then(
      (made) => made?.release(),
      () => {},
    )
  }
}

interface Begun {
  readonly monitor: Monitor
  readonly userNamespace: Promise<UserNamespace | undefined>
}

const buildUnder = async (
  parts: Parts,
  begun: SandboxState,
  { monitor, userNamespace }: Begun,
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
    userNamespace,
    prepareInside(parts, begun.spec, paths, signal),
  ])
  signal.throwIfAborted()
  await parts.at("create.bundle")
  const made = { ...inside, cgroup, nameservers, userNamespace: namespace?.path }
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

/** The runtime waits for the word, so that it may be told now of what is there only then. */
const startMonitor = (
  { runtime, tools, launchers, states, cgroups }: Parts,
  spec: SandboxSpec,
  signal: AbortSignal,
): Monitor => {
  const { sandbox } = spec.identity
  const paths = states.paths(sandbox)
  const mounts = { base: baseOf(spec), table: paths.mounts }
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
