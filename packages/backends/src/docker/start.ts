import { BerthError } from "@berth/protocol/errors"
import { orDiskFull } from "./disk-full.ts"
import type { Startable } from "./engine/observe.ts"
import type { Parts } from "./parts.ts"
import { boundSockets } from "./socket-limit.ts"

/**
 * Starts a container. Only now does the engine look for its network by name: a network that vanished since the creation
 * is made again, and the start is tried once more.
 */
export const startContainer = async (
  parts: Parts,
  seen: Startable,
  signal: AbortSignal,
): Promise<void> => {
  try {
    await start(parts, seen, signal)
    parts.started.add(seen.identity.sandbox)
    const { local, countsSockets } = parts.info()
    if (local && countsSockets) await boundSockets(parts.engine, seen.engineId, signal)
  } catch (failure) {
    throw await orDiskFull(failure, parts.info())
  }
}

const start = async (
  { engine, network }: Parts,
  { identity, engineId, network: joins, allow }: Startable,
  signal: AbortSignal,
): Promise<void> => {
  const request = { method: "POST", path: `/containers/${engineId}/start` } as const
  if (joins === "none") {
    await engine.ask(request, [204, 304], signal)
    return
  }
  const bridge = network.join(identity.sandbox, allow)
  if (bridge.name !== joins) throw strayed(joins, bridge.name)
  await bridge.ensure(signal)
  const first = await engine.ask(request, [204, 304, 404], signal)
  if (first.status === 404) {
    bridge.forget()
    await bridge.ensure(signal)
    await engine.ask(request, [204, 304], signal)
  }
  await bridge.settle(engineId, signal)
}

const strayed = (joins: string, wanted: string) =>
  new BerthError("backend.network_wrong", `the container is on the network ${joins}`, {
    details: { network: joins, why: `its labels ask for ${wanted}` },
  })
