import type { BootContext } from "../context.ts"
import type { Step } from "../step.ts"

/** Time limit. A journal is read through once; that of an agent's whole day takes a second. */
const BRIDGE_LIMIT_MS = 30_000

/** Waits until events can be kept: a sandbox that cannot write its journal accepts no prompts. */
export const bridge = (): Step<BootContext> => ({
  name: "bridge",
  needs: [],
  required: true,
  timeoutMs: BRIDGE_LIMIT_MS,
  run: async (context) => {
    await context.bridge
    return { did: "events are kept, and prompts can be taken" }
  },
})
