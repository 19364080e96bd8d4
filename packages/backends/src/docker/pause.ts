import { setTimeout as pause } from "node:timers/promises"
import type { Engine } from "./engine/engine.ts"

/** A busy host needs two or three attempts. If all fail, the last one's error is told. */
const ATTEMPTS = 8
const AGAIN_MS = 100

/**
 * Freezes a container. On cgroup v1 a runtime gives up ("unable to freeze") where processes start while it tries, as
 * happens on a busy host. It leaves the container running, and works a moment later.
 */
export const pauseContainer = async (
  engine: Engine,
  engineId: string,
  signal: AbortSignal,
): Promise<void> => {
  const request = { method: "POST", path: `/containers/${engineId}/pause` } as const
  for (let attempt = 1; attempt < ATTEMPTS; attempt += 1) {
    const { status } = await engine.ask(request, [204, 500], signal)
    if (status === 204) return
    await pause(AGAIN_MS, undefined, { signal })
  }
  await engine.ask(request, [204], signal)
}
