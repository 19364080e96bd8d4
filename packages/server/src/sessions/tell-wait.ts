import type { Logger } from "../logging/logger.ts"
import type { Attempt } from "./attempt.ts"
import type { Step } from "./next-step.ts"
import type { OpenPrompt } from "./rows.ts"
import type { Stored } from "./stored.ts"
import type { Waits } from "./waits.ts"

export interface TellWaitParts {
  readonly stored: Pick<Stored, "changes">
  readonly waits: Waits
  readonly log: Logger
}

/** Tells the followers of a session why a prompt waits. A failure of the store leaves the wait without its event. */
export const tellWait = (
  parts: TellWaitParts,
  attempt: Attempt,
  { session, sandbox }: Pick<OpenPrompt, "session" | "sandbox">,
  { prompt, wait: { code, message }, forMs }: Extract<Step, { readonly kind: "tell wait" }>,
): void => {
  const { waits, stored, log } = parts
  if (attempt.standing.told?.prompt !== prompt) clearWait(parts, attempt)
  attempt.set({ told: { prompt, code, message } })
  waits.set(prompt, { code, message: () => message }, forMs)
  attempt.beside(async () => {
    try {
      await stored.changes.tell(session, { type: "prompt.waiting", prompt, code, message })
    } catch (err) {
      log.debug(
        { op: "prompt.watch", prompt, sandbox, err },
        "the wait of a prompt cannot be stored; its followers see it only on request",
      )
    }
  })
}

/** Clears the wait that followers were told about. */
export const clearWait = ({ waits }: Pick<TellWaitParts, "waits">, attempt: Attempt): void => {
  const { told } = attempt.standing
  if (told === undefined) return
  waits.clear(told.prompt)
  attempt.set({ told: undefined })
}
