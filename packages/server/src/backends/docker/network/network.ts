import { BerthError } from "@berth/protocol/errors"
import type { InstallationId } from "@berth/protocol/ids"
import { z } from "zod"
import { abortable } from "../../../host/abortable.ts"
import { DEADLINES_MS } from "../../backend.ts"
import type { Engine } from "../engine.ts"
import { ensureFence, requireReach } from "./fence.ts"
import { networkNames } from "./names.ts"
import { NetworkAnswer, wantedNetwork, whyWrong } from "./wanted.ts"

/** The one network of an installation's sandboxes with policy `open`. */
export interface SandboxNetwork {
  readonly name: string
  /** Makes it once: callers at the same time share one attempt, and success is remembered. */
  ensure(signal: AbortSignal): Promise<void>
  /** The engine was away, or says that the network is gone: the next one looks again. */
  forget(): void
}

export const createNetwork = (engine: Engine, installation: InstallationId): SandboxNetwork => {
  const names = networkNames(installation)
  let attempt: Promise<void> | undefined
  let fencing: Promise<void> | undefined

  const within = () => AbortSignal.timeout(DEADLINES_MS.ensureNetwork)
  const make = async () => {
    await ensureNetwork(engine, installation, within())
    await requireReach(names)
  }

  return {
    name: names.network,
    async ensure(signal) {
      // Before the network, so that nothing is ever on it without a fence; and each time, since rules are
      // flushed by people. Both are assigned before the first await: concurrent callers share one attempt.
      fencing ??= ensureFence(names, within()).finally(() => {
        fencing = undefined
      })
      await abortable(fencing, signal)
      attempt ??= make().catch((failure) => {
        attempt = undefined
        throw failure
      })
      await abortable(attempt, signal)
    },
    forget: () => {
      attempt = undefined
    },
  }
}

/** Decides by what exists, before and after: the statuses of a refusal mean different things in each engine. */
const ensureNetwork = async (
  engine: Engine,
  installation: InstallationId,
  signal: AbortSignal,
): Promise<void> => {
  if (await stands(engine, installation, signal)) return
  const body = wantedNetwork(installation)
  const request = { method: "POST", path: "/networks/create", body } as const
  const { status, said } = await engine.ask(request, [201, 400, 403, 404, 409, 500], signal)
  // Someone else may have made it in between; and an engine may have made a second one.
  if (await stands(engine, installation, signal)) return
  throw new BerthError(
    status === 404 ? "backend.network_exhausted" : "backend.engine_failed",
    `the engine made no network: ${said}`,
    { details: { network: body.Name, status, engineSaid: said } },
  )
}

/** Whether the right network is there; a wrong one is an error that says what is wrong with it. */
const stands = async (
  engine: Engine,
  installation: InstallationId,
  signal: AbortSignal,
): Promise<boolean> => {
  const { network } = networkNames(installation)
  // The filter takes every name that contains this one.
  const query = { filters: { name: [network] } }
  const request = { method: "GET", path: "/networks", query } as const
  const listed = await engine.read(request, z.array(NetworkAnswer), signal)
  const same = listed.filter(({ Name }) => Name === network)
  const [found] = same
  if (found === undefined) return false
  const several = same.length > 1 && `there are ${same.length} of this name`
  const why = several || whyWrong(found, installation)
  if (why === undefined) return true
  throw new BerthError(
    "backend.network_conflict",
    `the network ${network} is a wrong one: ${why}`,
    {
      details: { network, why, ids: same.map(({ Id }) => Id) },
    },
  )
}
