import { abortable } from "@berth/host/abortable"
import { serialByKey } from "@berth/host/serial"
import { timeoutSignal } from "@berth/host/timeout-signal"
import { BerthError } from "@berth/protocol/errors"
import type { InstallationId } from "@berth/protocol/ids"
import type { Ipv4Range } from "@berth/protocol/network"
import { z } from "zod"
import { DEADLINES_MS } from "../../backend.ts"
import { readBounds } from "../../connections/bounds.ts"
import type { Engine } from "../engine/engine.ts"
import { dropFence, ensureFence, requireReach } from "./fence.ts"
import { keepToGateway } from "./gateway.ts"
import { type NetworkNames, networkNames, normalised } from "./names.ts"
import { NetworkAnswer, wantedNetwork, whyWrong } from "./wanted.ts"

/** A network of the engine's, with the fence around it. */
export interface Bridge {
  readonly name: string
  /** Makes the network once: concurrent callers share one attempt, and success is remembered. */
  ensure(signal: AbortSignal): Promise<void>
  /** Puts the fence back if somebody took it away, and returns whether that was so. */
  restore(signal: AbortSignal): Promise<boolean>
  /**
   * Sets the rules inside a container that has been started. Called after each start: its network namespace is a new
   * one.
   */
  settle(engineId: string, signal: AbortSignal): Promise<void>
  /** Called when the engine was away, or says that the network is gone: the next `ensure` looks again. */
  forget(): void
  /** Removes the network with its fence, unless a container is on it. */
  release(signal: AbortSignal): Promise<void>
}

export const createBridge = (
  engine: Engine,
  installation: InstallationId,
  allow: readonly Ipv4Range[],
  fenced: boolean,
): Bridge => {
  const names = networkNames(installation, allow)
  const wanted = { names, allow: normalised(allow) }
  const inTurn = serialByKey()
  let isMade = false
  let attempt: Promise<void> | undefined

  const make = async () => {
    const signal = timeoutSignal(DEADLINES_MS.ensureNetwork)
    // The fence comes before the network, so that nothing is ever on it without a fence; and each time, since people
    // flush rules.
    if (fenced) {
      await ensureFence(wanted, readBounds(), signal)
    }
    if (isMade) return
    await ensureNetwork(engine, names, installation, signal)
    if (fenced) await requireReach(names)
    isMade = true
  }

  return {
    name: names.network,
    ensure(signal) {
      // Assigned before the first await: concurrent callers share one attempt.
      attempt ??= inTurn(names.network, make).finally(() => {
        attempt = undefined
      })
      return abortable(attempt, signal)
    },
    restore: (signal) =>
      inTurn(
        names.network,
        async () => fenced && (await ensureFence(wanted, readBounds(), signal)),
      ),
    async settle(engineId, signal) {
      if (fenced) await keepToGateway(engine, engineId, wanted, signal)
    },
    forget: () => {
      isMade = false
    },
    // Serial with `ensure`: the fence goes only after the network, and no network is made meanwhile.
    release: (signal) =>
      inTurn(names.network, async () => {
        isMade = false
        await removeBridge(engine, names, signal)
      }),
  }
}

const IN_USE = 403

/** Removes a network with its fence, unless a container is on it. */
export const removeBridge = async (
  engine: Engine,
  names: Pick<NetworkNames, "network" | "table">,
  signal: AbortSignal,
): Promise<void> => {
  const request = { method: "DELETE", path: `/networks/${names.network}` } as const
  const { status } = await engine.ask(request, [204, IN_USE, 404], signal)
  if (status !== IN_USE) await dropFence(names, signal)
}

/**
 * Makes the network if it does not stand. Decides by what exists before and after, since the statuses of a refusal mean
 * different things in each engine.
 */
const ensureNetwork = async (
  engine: Engine,
  names: NetworkNames,
  installation: InstallationId,
  signal: AbortSignal,
): Promise<void> => {
  if (await stands(engine, names, installation, signal)) return
  const body = wantedNetwork(names, installation)
  const request = { method: "POST", path: "/networks/create", body } as const
  const { status, said } = await engine.ask(request, [201, 400, 403, 404, 409, 500], signal)
  // Another process may have made the network in between; and an engine may have made a second one.
  if (await stands(engine, names, installation, signal)) return
  throw new BerthError(
    status === 404 ? "backend.network_exhausted" : "backend.engine_failed",
    `the engine made no network: ${said}`,
    { details: { network: body.Name, status, engineSaid: said } },
  )
}

/** Whether the right network stands. A wrong network of its name is an error that says what is wrong with it. */
const stands = async (
  engine: Engine,
  names: NetworkNames,
  installation: InstallationId,
  signal: AbortSignal,
): Promise<boolean> => {
  const { network } = names
  // The filter takes every name that contains this one.
  const query = { filters: { name: [network] } }
  const request = { method: "GET", path: "/networks", query } as const
  const listed = await engine.read(request, z.array(NetworkAnswer), signal)
  const same = listed.filter(({ Name }) => Name === network)
  const [found] = same
  if (found === undefined) return false
  const several = same.length > 1 && `there are ${same.length} of this name`
  const why = several || whyWrong(found, names, installation)
  if (why === undefined) return true
  throw new BerthError("backend.network_wrong", `the network ${network} is a wrong one: ${why}`, {
    details: { network, why, ids: same.map(({ Id }) => Id) },
  })
}
