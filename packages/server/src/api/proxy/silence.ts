import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import type { Sandboxes } from "../../sandboxes/sandboxes.ts"

/** How often a sandbox that owes an answer is checked. */
const LOOK_EVERY_MS = 1_000

/** A snapshot halts a sandbox for a few seconds; one that is halted longer is paused. */
const PAUSED_MS = 10_000

/** Removing a large tree, or ending a stubborn process, takes a while. */
const SILENT_MS = 60_000

export interface Silence {
  /** Whether the sandbox owes something now: time in which it waits for others does not count. */
  readonly owes: () => boolean
  /** Changes when the sandbox takes or gives something. */
  readonly progress: () => number
  readonly onOver: (why: BerthError) => void
}

/** Bounds how long a sandbox may be silent before its answer begins. Even a frozen sandbox accepts connections. */
export const watchSilence = (
  sandboxes: Pick<Sandboxes, "running">,
  sandbox: SandboxId,
  { owes, progress, onOver }: Silence,
): Disposable => {
  let silentMs = 0
  let before = progress()
  const look = async () => {
    const now = progress()
    silentMs = owes() && now === before ? silentMs + LOOK_EVERY_MS : 0
    before = now
    if (silentMs === 0) return
    const state = await sandboxes.running.stateOf(sandbox)
    if (state === undefined || state === "exited") onOver(ended(sandbox))
    else if (state === "paused" && silentMs >= PAUSED_MS) onOver(paused(sandbox))
    else if (silentMs >= SILENT_MS) onOver(silent(sandbox))
  }
  const timer = setInterval(() => void look().catch(() => {}), LOOK_EVERY_MS)
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

const ended = (sandbox: SandboxId): BerthError =>
  new BerthError("backend.unknown_sandbox", `${sandbox} has ended`, { details: { sandbox } })

const paused = (sandbox: SandboxId): BerthError =>
  new BerthError("backend.wrong_state", `${sandbox} is paused`, {
    details: { sandbox, state: "paused", must: "running" },
  })

const silent = (sandbox: SandboxId): BerthError =>
  new BerthError("bridge.timed_out", "the sandbox did not answer", {
    details: { sandbox, deadlineMs: SILENT_MS },
  })
