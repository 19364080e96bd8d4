import { benchmark } from "../benchmark.ts"
import { openBoots } from "../fixtures/boots.ts"

const HOOK_MS = 1_500

/**
 * Like `boot.prebuilt`, with a fetch and a start hook that waits: OpenCode's start hides behind them, or they behind
 * it. The other side is the longer of the two, without git's short part, to our disadvantage.
 */
export default benchmark({
  what: `boot with a fetch, a start hook of ${HOOK_MS} ms and OpenCode − the longer of hook and bare OpenCode`,
  unit: "ms",
  bound: { of: "difference", atMost: 400 },
  statistic: "median",
  runs: 7,
  prepare: (context) => openBoots(context, { startHook: `sleep ${HOOK_MS / 1000}` }),
  ours: async (boots, signal) => {
    await boots.commit(signal)
    return boots.prebuilt(signal)
  },
  other: async (boots, signal) => Math.max(HOOK_MS, await boots.bareOpenCode(signal)),
  note: (boots) => `steps of the last boot: ${boots.lastSteps()}`,
})
