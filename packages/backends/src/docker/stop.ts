import type { SandboxId } from "@berth/protocol/ids"
import { STOP_SIGNAL } from "./container.ts"
import { inspectContainer } from "./engine/containers.ts"
import type { Engine } from "./engine/engine.ts"
import { idByName } from "./id-by-name.ts"
import type { Parts } from "./parts.ts"

/**
 * Asks the first process to end, and kills it when the grace is over. Returns false if the engine does not have the
 * container. The engine's own `stop` counts in whole seconds, and refuses paused containers.
 */
export const stopSandbox = async (
  parts: Parts,
  sandbox: SandboxId,
  graceMs: number,
  signal: AbortSignal,
): Promise<boolean> => {
  const { engine, directories } = parts
  const note = await directories.read(sandbox)
  if (note !== undefined && (await endContainer(engine, note.engineId, graceMs, signal)))
    return true
  const engineId = await idByName(parts, sandbox, signal)
  return engineId !== undefined && (await endContainer(engine, engineId, graceMs, signal))
}

/**
 * A container that has not ended after this long is inspected: its engine may have taken the signal and left it paused.
 */
const SOON_MS = 2_000

const endContainer = async (
  engine: Engine,
  engineId: string,
  graceMs: number,
  signal: AbortSignal,
): Promise<boolean> => {
  const path = `/containers/${engineId}`
  const hangUp = new AbortController()
  const within = AbortSignal.any([signal, hangUp.signal])
  // The wait begins before the signal is sent, so that an end that comes at once is not missed.
  const query = { condition: "not-running" }
  const ended = engine.ask({ method: "POST", path: `${path}/wait`, query }, [200, 404], within)
  ended.catch(() => {})
  let leftMs = graceMs
  try {
    const asked = await kill(engine, path, STOP_SIGNAL, signal)
    if (asked === "unknown") return false
    if (asked === "refused") {
      // The container does not run; or it is paused, and this engine does not resume it for a signal.
      const status = (await inspectContainer(engine, engineId, signal))?.State.Status
      if (status !== "paused" && status !== "running") return status !== undefined
      if (status === "paused") await unpause(engine, path, signal)
      await kill(engine, path, STOP_SIGNAL, signal)
    } else {
      const soonMs = Math.min(graceMs, SOON_MS)
      if (await inTime(ended, soonMs)) return true
      const found = await inspectContainer(engine, engineId, signal)
      if (found?.State.Status === "paused") await unpause(engine, path, signal)
      else leftMs -= soonMs
    }
    if (await inTime(ended, leftMs)) return true
    await kill(engine, path, "SIGKILL", signal)
    await ended
    return true
  } finally {
    hangUp.abort()
  }
}

const unpause = async (engine: Engine, path: string, signal: AbortSignal): Promise<void> => {
  await engine.ask({ method: "POST", path: `${path}/unpause` }, [204, 304, 404, 409], signal)
}

const KILLED = { 204: "sent", 404: "unknown", 409: "refused" } as const

const kill = async (
  engine: Engine,
  path: string,
  name: string,
  signal: AbortSignal,
): Promise<(typeof KILLED)[keyof typeof KILLED]> => {
  const request = { method: "POST", path: `${path}/kill`, query: { signal: name } } as const
  const { status } = await engine.ask(request, [204, 404, 409], signal)
  return KILLED[status as keyof typeof KILLED]
}

const inTime = async (ended: Promise<unknown>, graceMs: number): Promise<boolean> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), graceMs)
  })
  try {
    return await Promise.race([ended.then(() => true), late])
  } finally {
    clearTimeout(timer)
  }
}
