import type { InstallationId } from "@berth/protocol/ids"
import type { Ipv4Range } from "@berth/protocol/network"
import type { SandboxExit, UnheldLimit } from "@berth/protocol/sandbox"
import { z } from "zod"
import type { EngineState, ObservedSandbox } from "../../backend.ts"
import { allowedOf, type Labels, readLabels } from "./names.ts"

/** The parts of the engine's description of a container that matter here. */
export const ContainerAnswer = z.object({
  Id: z.string(),
  State: z.object({
    Status: z.string(),
    ExitCode: z.int(),
    OOMKilled: z.boolean(),
    FinishedAt: z.string(),
  }),
  Config: z.object({ Labels: z.record(z.string(), z.string()).nullish() }),
  HostConfig: z.object({ NetworkMode: z.string() }),
})
export type ContainerAnswer = z.infer<typeof ContainerAnswer>

const SIGNAL_BASE = 128
const LAST_SIGNAL = 64
const KILLED = SIGNAL_BASE + 9

/**
 * The engine's states that count here. A container that is being removed is not among them: it exists for nobody any
 * more.
 */
const STATES: Readonly<Record<string, EngineState>> = {
  created: "created",
  running: "running",
  restarting: "running",
  paused: "paused",
  exited: "exited",
  dead: "exited",
}

/** Translates the engine's word for a container's state; undefined for a container that is being removed. */
const stateOf = (status: string): EngineState | undefined => STATES[status]

export interface Observed extends ObservedSandbox {
  /** The engine's own id of the container: a name may lead to another one later. */
  readonly engineId: string
}

/** An observed sandbox, with what its start needs. */
export interface Startable extends Observed {
  /** The name of the sandbox's network in the engine, and the ranges that this network allows. */
  readonly network: string
  readonly allow: readonly Ipv4Range[]
}

/** Reads a container as a sandbox; undefined if it is not this installation's. */
export const observe = (
  { Id, State, Config, HostConfig }: ContainerAnswer,
  installation: InstallationId,
  unheldLimits: readonly UnheldLimit[],
): Startable | undefined => {
  const labels = Config.Labels ?? {}
  const entry = { engineId: Id, state: State.Status, labels }
  const seen = observeListed(entry, installation, unheldLimits)
  if (seen === undefined) return undefined
  const startable = { ...seen, network: HostConfig.NetworkMode, allow: allowedOf(labels) }
  return seen.state === "exited" ? { ...startable, exit: exitOf(State) } : startable
}

/** A container's entry in a list. It tells neither how the container ended nor, in every engine, its network. */
export interface ListEntry {
  readonly engineId: string
  readonly state: string
  readonly labels: Labels
}

/** Reads a list's entry as a sandbox; undefined if it is not this installation's. */
export const observeListed = (
  { engineId, state: status, labels }: ListEntry,
  installation: InstallationId,
  unheldLimits: readonly UnheldLimit[],
): Observed | undefined => {
  const known = readLabels(labels, installation)
  const state = stateOf(status)
  if (known === undefined || state === undefined) return undefined
  return { ...known, state, unheldLimits, engineId }
}

const exitOf = ({ ExitCode, OOMKilled, FinishedAt }: ContainerAnswer["State"]): SandboxExit => {
  const exit = exitOfCode(ExitCode, new Date(FinishedAt))
  return OOMKilled && ExitCode === KILLED ? { ...exit, reason: "out-of-memory" } : exit
}

/** The engine's init reports a signal as 128 and its number. */
export const exitOfCode = (code: number, at: Date): SandboxExit => {
  const signalled = code > SIGNAL_BASE && code <= SIGNAL_BASE + LAST_SIGNAL
  return { code, reason: signalled ? "signalled" : "exited", at: at.toISOString() }
}
