import type { BootMode, BootTrace } from "@berth/protocol/boot"
import { MAX_BOOT_STEPS } from "@berth/protocol/boot-limits"
import type { EventBody } from "@berth/protocol/event"
import type { BootSummary } from "@berth/protocol/sandboxes"

export const begunBoot = (mode: BootMode): BootSummary => ({
  mode,
  outcome: "running",
  readyAtMs: null,
  running: [],
  ending: null,
})

export const summaryOf = ({ mode, outcome, readyAtMs, steps, ending }: BootTrace): BootSummary => ({
  mode,
  outcome,
  readyAtMs,
  running: steps.filter(({ state }) => state === "running").map(({ name }) => name),
  ending: ending && { step: ending.step, reason: ending.reason },
})

/** The boot as it stands after this event. */
export const follow = (boot: BootSummary, body: EventBody): BootSummary => {
  switch (body.type) {
    case "boot.step.started":
      // The sandbox sends this event and may name any number of steps, so the list is bounded.
      if (boot.outcome !== "running" || boot.running.length >= MAX_BOOT_STEPS) return boot
      return { ...boot, running: [...new Set([...boot.running, body.step])] }
    case "boot.step.ended":
      return { ...boot, running: boot.running.filter((step) => step !== body.step) }
    case "boot.ready":
      return { ...boot, readyAtMs: body.atMs }
    case "boot.ending":
      return { ...boot, ending: { step: body.ending.step, reason: body.ending.reason } }
    case "boot.ended":
      return { ...boot, outcome: body.outcome, running: [] }
    default:
      return boot
  }
}

/** Whether the boot needs no more waiting: the sandbox is ready, or never will be. */
export const isBootOver = ({ readyAtMs, ending, outcome }: BootSummary): boolean =>
  readyAtMs !== null || ending !== null || outcome !== "running"
