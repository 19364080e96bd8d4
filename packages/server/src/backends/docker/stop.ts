import { BerthError } from "@berth/protocol/errors"
import type { SandboxExit } from "@berth/protocol/sandbox"
import type { Engine } from "./engine.ts"
import type { Observed } from "./observe.ts"

/**
 * Asks the first process to end, and makes it when the grace is over. The engine's own `stop` counts in whole
 * seconds, and refuses paused containers.
 */
export const endContainer = async (
  engine: Engine,
  { engineId, state }: Observed,
  graceMs: number,
  signal: AbortSignal,
): Promise<void> => {
  const hangUp = new AbortController()
  const within = AbortSignal.any([signal, hangUp.signal])
  const path = `/containers/${engineId}`
  // Asked before the signal is sent, so that an end that comes at once is not missed.
  const query = { condition: "not-running" }
  const ended = engine.ask({ method: "POST", path: `${path}/wait`, query }, [200, 404], within)
  ended.catch(() => {})
  try {
    if (state === "paused") {
      await engine.ask({ method: "POST", path: `${path}/unpause` }, [204, 304, 404, 409], signal)
    }
    await kill(engine, path, "SIGTERM", signal)
    if (await inTime(ended, graceMs)) return
    await kill(engine, path, "SIGKILL", signal)
    await ended
  } finally {
    hangUp.abort()
  }
}

/** One that has ended in the meantime needs no signal: 409. */
const kill = async (engine: Engine, path: string, name: string, signal: AbortSignal) => {
  const query = { signal: name }
  await engine.ask({ method: "POST", path: `${path}/kill`, query }, [204, 404, 409], signal)
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

/** Nothing of it ever ran: there is no end to tell of. */
export const neverRan = (): SandboxExit => ({
  code: null,
  reason: "unknown",
  at: new Date().toISOString(),
})

export const wrongState = (
  { identity: { sandbox }, state }: Observed,
  done: string,
  needed: string,
): BerthError =>
  new BerthError("backend.wrong_state", `a sandbox that is ${state} cannot be ${done}`, {
    details: { sandbox, state, needed },
  })
