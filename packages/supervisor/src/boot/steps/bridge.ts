import type { BootContext } from "../context.ts"
import type { Step } from "../step.ts"

/** A journal is read through once; one of an agent's whole day takes a second. */
const BRIDGE_LIMIT_MS = 30_000

/** Waits until what the agent does can be kept: a sandbox that cannot write its journal takes no prompts. */
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
