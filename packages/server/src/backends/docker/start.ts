import { refused } from "./failures.ts"
import type { Observed } from "./observe.ts"
import type { Parts } from "./parts.ts"

/**
 * Starts a container. Only now does the engine look for its network by name: one that vanished since the creation
 * is made again, and the start is tried once more.
 */
export const startContainer = async (
  { engine, network }: Parts,
  { engineId, network: joins }: Observed,
  signal: AbortSignal,
): Promise<void> => {
  const request = { method: "POST", path: `/containers/${engineId}/start` } as const
  const connected = joins === network.name
  if (connected) await network.ensure(signal)
  const first = await engine.ask(request, [204, 304, 404], signal)
  if (first.status !== 404) return
  if (!connected) throw refused(request, first.status, first.said)
  network.forget()
  await network.ensure(signal)
  await engine.ask(request, [204, 304], signal)
}
