import type { PromptId } from "@berth/protocol/ids"
import type { UsedSandboxes } from "../sandboxes/sandboxes.ts"
import { Attempt, type AttemptParts } from "./attempt.ts"
import { openHindranceOf } from "./hindrance.ts"
import type { Limits } from "./limits.ts"
import { nextStep, type Step } from "./next-step.ts"
import { PromptUse, type PromptUseParts } from "./prompt-use.ts"
import { isPending, type OpenPrompt, openNow } from "./rows.ts"
import { openTakeStep, type TakeStep, type TakeStepParts } from "./take-step.ts"
import { clearWait } from "./tell-wait.ts"
import { Wakeup } from "./wakeup.ts"

export interface PromptRunParts extends AttemptParts, TakeStepParts {
  readonly sandboxes: TakeStepParts["sandboxes"] &
    PromptUseParts["sandboxes"] &
    Pick<UsedSandboxes, "haltOf">
  readonly presence: TakeStepParts["presence"] & PromptUseParts["presence"]
  readonly limits: Limits
}

/**
 * Runs one prompt from its place in the queue to its end. Resumes a prompt that an earlier server assigned to a sandbox,
 * also one that was stopped without the sandbox's word. `nextStep` decides; an attempt does it, and another begins
 * anew when the store has failed.
 */
export class PromptRun {
  readonly use: PromptUse
  readonly #parts: PromptRunParts
  readonly #signal: AbortSignal
  readonly #takeStep: TakeStep
  readonly #hindranceOf: ReturnType<typeof openHindranceOf>
  readonly #wakeup = new Wakeup()
  #attempt: Attempt
  /** The prompt as the store had it when it was read last. */
  #prompt: OpenPrompt
  #isOver = false
  /** The prompt that followers wait for. */
  #heldUp: PromptId | undefined
  #hasChanged = true

  /** The signal ends the run, and not the prompt. */
  constructor(parts: PromptRunParts, prompt: OpenPrompt, signal: AbortSignal) {
    this.#parts = parts
    this.#prompt = prompt
    this.#signal = signal
    this.#takeStep = openTakeStep(parts)
    this.#hindranceOf = openHindranceOf(parts.sandboxes)
    this.use = new PromptUse(parts)
    this.#attempt = this.#newAttempt()
  }

  /** Looks at the prompt again: something has changed for the prompts of its session. */
  look(): void {
    this.#hasChanged = true
    this.#attempt.set({ changedMs: this.#attempt.nowMs })
  }

  /** Resolves when the prompt is over, or the signal fires. */
  async run(): Promise<void> {
    const wake = () => this.#wakeup.wake()
    this.#signal.addEventListener("abort", wake)
    const { session } = this.#prompt
    await this.#parts.keepTrying(session, () => this.#try(), this.#signal)
    this.#signal.removeEventListener("abort", wake)
  }

  #newAttempt(): Attempt {
    const [wakeup, signal] = [this.#wakeup, this.#signal]
    return new Attempt(this.#parts, { wakeup, signal, hasLease: this.use.isHeld })
  }

  async #try(): Promise<void> {
    this.#hasChanged = true
    this.#attempt = this.#newAttempt()
    const taking = {
      attempt: this.#attempt,
      use: this.use,
      wakeup: this.#wakeup,
      signal: this.#signal,
    }
    try {
      while (!this.#signal.aborted) {
        await this.#read()
        if (this.#signal.aborted) return
        const step = this.#decide()
        if (step.kind === "finish") return
        await this.#takeStep(step, this.#prompt, taking)
        this.#hasChanged ||= step.kind === "end" || step.kind === "fail"
      }
    } finally {
      await this.#attempt.close()
      clearWait(this.#parts, this.#attempt)
      this.#parts.waits.clear(this.#prompt.id)
    }
  }

  /** Reads the prompt from the store, if it may have changed. */
  async #read(): Promise<void> {
    const { sandbox, isStopRequested } = this.#prompt
    if (!this.#hasChanged && sandbox !== null && !isStopRequested) return
    this.#hasChanged = false
    const { session } = this.#prompt
    await this.#parts.keepTrying(session, () => this.#readNow(), this.#signal)
  }

  async #readNow(): Promise<void> {
    const { rows } = this.#parts.stored
    const prompt = await openNow(rows, this.#prompt)
    this.#isOver = prompt === undefined
    if (prompt === undefined) return
    const { id, session, state } = prompt
    this.#heldUp = isPending(state) ? id : (await rows.get(session)).pending[0]
    this.#prompt = prompt
  }

  #decide(): Step {
    const { limits } = this.#parts
    const prompt = this.#isOver ? undefined : this.#prompt
    const { nowMs } = this.#attempt
    if (prompt !== undefined && prompt.sandbox !== null) {
      const hindrance = this.#hindranceOf(prompt.sandbox, this.#attempt.standing.refusal?.error)
      this.#attempt.observe(hindrance, { nowMs, isStopRequested: prompt.isStopRequested })
    }
    const { standing } = this.#attempt
    return nextStep({ prompt, heldUp: this.#heldUp, standing, nowMs }, limits)
  }
}
