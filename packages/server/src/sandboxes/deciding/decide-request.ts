import type { ConfigHash } from "@berth/protocol/sandbox"
import type { StoredPhase } from "../../store/database.ts"
import { isCurrentPhase } from "../state/phases.ts"
import type { Workspace } from "../state/workspace.ts"

/** After this many failed boots of one config in a row, no other is tried until somebody asks for it. */
export const MAX_FAILED_BOOTS = 3

/** A workspace's sandbox, as a request finds it: the current one, or else the oldest one that is not gone. */
export interface SandboxThere {
  readonly phase: Exclude<StoredPhase, "gone" | "quarantined">
  readonly configHash: ConfigHash
  /** The sandbox has reported that its boot failed. */
  readonly hasBootFailed: boolean
}

/** A request for the sandbox of a workspace, and the facts that its answer rests on. */
export interface SandboxRequest {
  /** undefined: the workspace has no sandbox. */
  readonly there: SandboxThere | undefined
  readonly desiredHash: ConfigHash
  /** The failed boots of the workspace. */
  readonly failed: Workspace["failed"]
  /** A person asks: the boot is tried although the last ones failed. */
  readonly isRequested: boolean
  /** Whether to boot again where the last boot failed and its sandbox is kept. */
  readonly retry: boolean
}

export type RequestAnswer =
  | { readonly kind: "use" }
  /** Makes the draining sandbox current again and uses it; where it drains no more, waits for its end. */
  | { readonly kind: "undrain" }
  /** Waits until the sandbox is gone. `asksSuccessor`: leases that yield give way to its successor. */
  | { readonly kind: "wait"; readonly asksSuccessor: boolean }
  /** Stops the sandbox, and waits until it is gone. `givesWay`: leases that yield give way. */
  | { readonly kind: "replace"; readonly givesWay: boolean; readonly reason: string }
  | { readonly kind: "make" }
  /** The boot failed, and its sandbox is kept to be looked at. */
  | { readonly kind: "refuse-failed-boot" }
  /** The last boots of this config failed, one after another. */
  | { readonly kind: "refuse-failing" }

/** Decides what a request for a workspace's sandbox does next. Changes nothing. */
export const decideRequest = (request: SandboxRequest): RequestAnswer => {
  const { there } = request
  if (there === undefined) return decideWithout(request)
  if (there.configHash !== request.desiredHash)
    return { kind: "wait", asksSuccessor: request.isRequested }
  return decideSameConfig(request, there)
}

const decideWithout = ({ desiredHash, failed, isRequested }: SandboxRequest): RequestAnswer => {
  const isFailing = failed?.hash === desiredHash && failed.boots >= MAX_FAILED_BOOTS
  return isFailing && !isRequested ? { kind: "refuse-failing" } : { kind: "make" }
}

/** Decides about a sandbox that has the config which its workspace asks for. */
const decideSameConfig = (
  { isRequested, retry }: SandboxRequest,
  { phase, hasBootFailed }: SandboxThere,
): RequestAnswer => {
  if (phase === "failed" && !retry) return { kind: "refuse-failed-boot" }
  if (phase === "failed" || (hasBootFailed && isCurrentPhase(phase)))
    return { kind: "replace", givesWay: isRequested, reason: "its boot had failed" }
  if (isCurrentPhase(phase)) return { kind: "use" }
  if (phase === "draining" && !hasBootFailed) return { kind: "undrain" }
  return { kind: "wait", asksSuccessor: false }
}
