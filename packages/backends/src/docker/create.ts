import { copyFile } from "node:fs/promises"
import { timeoutSignal } from "@berth/host/timeout-signal"
import { BerthError } from "@berth/protocol/errors"
import { TOOLBOX_TARGET } from "@berth/protocol/inside"
import type { SandboxSpec } from "@berth/protocol/sandbox"
import { z } from "zod"
import type { ObservedSandbox } from "../backend.ts"
import { refuseOtherConfiguration } from "../refusals.ts"
import { type ContainerInput, containerOf, imageOf } from "./container.ts"
import { deviceMounts } from "./devices.ts"
import { orDiskFull } from "./disk-full.ts"
import { inspectSandbox } from "./engine/containers.ts"
import { type Answer, parseAnswer } from "./engine/engine.ts"
import { imageMissing, invalid, refused } from "./engine/failures.ts"
import type { EngineMount } from "./engine/mount.ts"
import { containerName, terminalsVolume } from "./engine/names.ts"
import { observe } from "./engine/observe.ts"
import type { ImageSystem } from "./image-systems.ts"
import { unheldLimits } from "./info.ts"
import { bind, checkMounts, engineMounts } from "./mounts.ts"
import type { Parts } from "./parts.ts"
import { removeTraces, removeWhole } from "./remove.ts"
import { ensureFiles, notedFiles } from "./stacks.ts"

/** How long undoing a failed creation may take; the caller's own deadline may be over by then. */
const UNDO_DEADLINE_MS = 10_000
/** How long a caller that has given up waits for an engine that is still making the container. */
const SETTLE_MS = 2_000

const CreateAnswer = z.object({ Id: z.string() })

/**
 * Creates a sandbox, or finds the one that exists already. Its directory is made first, so that a crash at any line
 * leaves something that `repair` finds; a failure undoes all of it.
 */
export const createSandbox = async (
  parts: Parts,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<ObservedSandbox> => {
  try {
    return await makeOrFind(parts, spec, signal)
  } catch (thrown) {
    throw await orDiskFull(thrown, parts.info())
  }
}

const makeOrFind = async (
  parts: Parts,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<ObservedSandbox> => {
  const { sandbox } = spec.identity
  const mounting = mountsInput(parts, spec)
  if (parts.far === undefined) await checkMounts(mounting)
  else parts.far.check(spec)
  await requireCaches(parts, spec, signal)
  const accounts = await accountsOf(parts, spec, signal)
  const isNew = await parts.directories.make(sandbox, parts.info().idBase)
  const existing = isNew ? undefined : await findExisting(parts, spec, signal)
  if (existing !== undefined) return existing
  const createdAt = new Date().toISOString()
  try {
    const network = await networkOf(parts, spec, signal)
    await ensureFiles(parts, spec, signal)
    const bound = await bindAccounts(parts, spec, accounts)
    return await createContainer(parts, { spec, createdAt, network }, bound, signal)
  } catch (thrown) {
    // The disk is looked at before anything is given back.
    const failure = await orDiskFull(thrown, parts.info())
    await undo(parts, spec, createdAt)
    throw failure
  }
}

const createContainer = async (
  parts: Parts,
  { spec, createdAt, network }: Pick<ContainerInput, "spec" | "createdAt" | "network">,
  accounts: readonly EngineMount[],
  signal: AbortSignal,
): Promise<ObservedSandbox> => {
  const { identity } = spec
  const files = parts.far?.mounts(spec) ?? engineMounts(mountsInput(parts, spec))
  const { ownDevices, seccomp: filters } = parts.info()
  const { dev } = parts.directories.paths(identity.sandbox)
  const devices = ownDevices ? deviceMounts(dev, terminalsVolume(identity.sandbox)) : []
  const mounts = [...files, ...accounts, ...devices]
  const body = containerOf({ spec, createdAt, mounts, network, filters, ownDevices })
  const query = { name: containerName(identity.sandbox) }
  const path = "/containers/create"
  const request = { method: "POST", path, query, body: parts.far?.publish(body) ?? body } as const
  signal.throwIfAborted()
  // The engine finishes a creation even if the client hangs up, so the answer is awaited.
  const asked = parts.engine.ask(request, [201, 400, 404, 409], timeoutSignal(UNDO_DEADLINE_MS))
  const answer = await settledOrLate(asked, signal)
  signal.throwIfAborted()
  if (answer.status === 409) return nameTaken(parts, spec, answer, signal)
  if (answer.status === 400) throw invalid(request, answer.said)
  if (answer.status === 404) {
    await requireImage(parts, spec, signal)
    throw refused(request, answer.status, answer.said)
  }
  const { Id: engineId } = parseAnswer(request, answer, CreateAnswer)
  await parts.directories.write(identity.sandbox, { engineId, ...notedFiles(parts, spec) })
  return { identity, state: "created", createdAt, unheldLimits: unheldLimits(parts.info()) }
}

/** Awaits the engine's answer, for at most SETTLE_MS longer than the caller does. */
const settledOrLate = async (asked: Promise<Answer>, signal: AbortSignal): Promise<Answer> => {
  const { promise: late, reject } = Promise.withResolvers<never>()
  let timer: NodeJS.Timeout | undefined
  const giveUp = () => {
    timer = setTimeout(() => reject(signal.reason), SETTLE_MS)
  }
  signal.addEventListener("abort", giveUp, { once: true })
  try {
    return await Promise.race([asked, late])
  } finally {
    signal.removeEventListener("abort", giveUp)
    clearTimeout(timer)
    // A late rejection must not be unhandled.
    asked.catch(() => {})
  }
}

/** Finds the sandbox that exists already under this id. Another configuration or owner is a conflict. */
const findExisting = async (
  { engine, installation, info }: Parts,
  { identity }: SandboxSpec,
  signal: AbortSignal,
): Promise<ObservedSandbox | undefined> => {
  const found = await inspectSandbox(engine, identity.sandbox, signal)
  if (found === undefined) return undefined
  const observed = observe(found, installation, unheldLimits(info()))
  const { sandbox } = identity
  if (observed === undefined) {
    const name = containerName(sandbox)
    throw new BerthError("backend.name_taken", `someone else's container has the name ${name}`, {
      details: { sandbox, name, takenBy: found.Id },
    })
  }
  refuseOtherConfiguration(identity, observed.identity)
  return observed
}

const nameTaken = async (
  parts: Parts,
  spec: SandboxSpec,
  { said }: Answer,
  signal: AbortSignal,
): Promise<ObservedSandbox> => {
  const existing = await findExisting(parts, spec, signal)
  if (existing !== undefined) return existing
  throw new BerthError("backend.engine_failed", "the engine says that the name is taken", {
    details: { sandbox: spec.identity.sandbox, status: 409, engineSaid: said },
  })
}

/** Checks for the image after a 404 of a creation: mostly the image is what is missing. */
const requireImage = async (
  { engine }: Parts,
  { config }: SandboxSpec,
  signal: AbortSignal,
): Promise<void> => {
  if (config.system.kind !== "image") return
  const { digest } = config.system
  const request = { method: "GET", path: `/images/${digest}/json` } as const
  const { status, said } = await engine.ask(request, [200, 404], signal)
  if (status === 200) return
  throw imageMissing(digest, said)
}

/** Makes sure that the network of the sandbox stands, and gives its name in the engine. */
const networkOf = async (
  { network }: Parts,
  { identity, config }: SandboxSpec,
  signal: AbortSignal,
): Promise<string> => {
  if (config.network.kind === "none") return "none"
  const bridge = network.join(identity.sandbox, config.network.allow)
  await bridge.ensure(signal)
  return bridge.name
}

type Accounts = Pick<ImageSystem, "passwd" | "group">

/**
 * Mounts the sandbox's own copies of passwd and group: nearly every program opens these files, and sandboxes that
 * shared them would see each other's accesses.
 */
const bindAccounts = async (
  { directories }: Parts,
  { identity }: SandboxSpec,
  accounts: Accounts | undefined,
): Promise<EngineMount[]> => {
  if (accounts === undefined) return []
  const { passwd, group } = directories.paths(identity.sandbox)
  await Promise.all([copyFile(accounts.passwd, passwd), copyFile(accounts.group, group)])
  return [bind(passwd, "/etc/passwd", true), bind(group, "/etc/group", true)]
}

/** Adds the user that agents run as to the image's own list of users. The image itself stays as it is. */
const accountsOf = async (
  { systems, info }: Parts,
  spec: SandboxSpec,
  signal: AbortSignal,
): Promise<Accounts | undefined> => {
  const digest = imageOf(spec)
  const { passwd, group, lacks } = await systems.of(digest, signal)
  const runsToolbox = spec.config.mounts.some(({ target }) => target === TOOLBOX_TARGET)
  if (runsToolbox && lacks !== undefined) {
    throw new BerthError("backend.image_unsuitable", `the image has no ${lacks}`, {
      details: { path: "system.digest", image: digest, lacks },
    })
  }
  return info().local ? { passwd, group } : undefined
}

const requireCaches = async (
  { caches }: Parts,
  { identity, config }: SandboxSpec,
  signal: AbortSignal,
): Promise<void> => {
  const wanted = config.mounts.filter((mount) => mount.kind === "cache")
  await Promise.all(wanted.map(({ cache }) => caches.require(identity.workspace, cache, signal)))
}

/** Undoes this very creation. A container of somebody else's, or of an earlier creation, stays. */
const undo = async (parts: Parts, { identity }: SandboxSpec, createdAt: string): Promise<void> => {
  const { engine, installation } = parts
  const signal = timeoutSignal(UNDO_DEADLINE_MS)
  try {
    const found = await inspectSandbox(engine, identity.sandbox, signal)
    const there = found && observe(found, installation, [])
    if (there !== undefined && there.createdAt !== createdAt) return
    if (there !== undefined) await removeWhole(parts, identity.sandbox, there.engineId, signal)
    await removeTraces(parts, identity.sandbox, signal)
  } catch {
    // The engine does not answer: `repair` finishes the undoing.
  }
}

const mountsInput = ({ installation, directories, keepOut }: Parts, spec: SandboxSpec) => ({
  spec,
  installation,
  directories: directories.paths(spec.identity.sandbox),
  keepOut,
})
