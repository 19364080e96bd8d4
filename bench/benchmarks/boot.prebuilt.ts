import { benchmark } from "../benchmark.ts"
import { openBoots } from "../fixtures/boots.ts"

/** The time that a sandbox adds to the start of its agent, if the repo is there and there is no hook. */
export default benchmark({
  what: "prebuilt boot with OpenCode, create → ready for prompts / bare opencode serve → healthy",
  unit: "ms",
  bound: { of: "ratio", atMost: 1.25 },
  statistic: "median",
  runs: 7,
  prepare: (context) => openBoots(context),
  ours: (boots, signal) => boots.prebuilt(signal),
  other: (boots, signal) => boots.bareOpenCode(signal),
  note: (boots) => `steps of the last boot: ${boots.lastSteps()}`,
})
