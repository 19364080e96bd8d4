import { setTimeout as pause } from "node:timers/promises"
import type { PromptId } from "@berth/protocol/ids"
import type { Logger } from "../logging/logger.ts"
import type { UsedSandboxes } from "../sandboxes/sandboxes.ts"
import { type Hindrance, openHindranceOf, type Talk } from "./hindrance.ts"
import { type AssignedPrompt, isPending, openNow } from "./rows.ts"
import type { Stored } from "./stored.ts"
import type { Waits } from "./waits.ts"

export interface WatchLimits {
  readonly lookEveryMs: number
  /** Followers of a prompt are told when its sandbox is not reached for this long. */
  readonly tellAfterMs: number
}

export const WATCH_LIMITS: WatchLimits = {
  lookEveryMs: 1_000,
  tellAfterMs: 5_000,
}

export interface WatchOverParts {
  readonly stored: Pick<Stored, "rows" | "changes">
  readonly sandboxes: Pick<UsedSandboxes, "kept" | "haltOf">
  readonly waits: Waits
  readonly log: Logger
  readonly limits: WatchLimits
}

/** A hindrance that followers were told about, and the prompt that it is of. */
interface Told {
  readonly prompt: PromptId
  readonly code: string
}

/**
 * Watches over a prompt whose sandbox may never be reached again, and tells its followers. Where the prompt was stopped
 * without the sandbox's word, they are those of the prompt that waits for that word.
 */
export const openWatchOver = ({ stored, sandboxes, waits, limits, log }: WatchOverParts) => {
  const { rows, changes } = stored
  const hindranceOf = openHindranceOf(sandboxes)

  /** The prompt that the hindrance holds up; undefined: there is none. */
  const heldUp = async ({ id, session }: AssignedPrompt): Promise<PromptId | undefined> => {
    const now = await openNow(rows, { id, session })
    if (now === undefined || isPending(now.state)) return id
    return (await rows.get(session)).pending[0]
  }

  return async (prompt: AssignedPrompt, talk: Talk, signal: AbortSignal): Promise<void> => {
    const { id, session, sandbox } = prompt
    let told: Told | undefined
    let hinderedMs = 0
    let lookedMs = performance.now()

    const look = async (): Promise<void> => {
      // Time in which the server itself stood still does not count as the sandbox's silence.
      const sinceMs = Math.min(performance.now() - lookedMs, 2 * limits.lookEveryMs)
      lookedMs = performance.now()
      const hindrance = hindranceOf(sandbox, talk)
      hinderedMs = hindrance === undefined ? 0 : hinderedMs + sinceMs
      if (hindrance === undefined) return forget()
      if (Math.max(hinderedMs, hindrance.forMs ?? 0) < limits.tellAfterMs) return
      const held = await heldUp(prompt)
      if (held === told?.prompt && hindrance.code === told?.code) return
      forget()
      if (held !== undefined) await tell(held, hindrance)
    }

    const tell = async (held: PromptId, { code, message, forMs }: Hindrance): Promise<void> => {
      told = { prompt: held, code }
      waits.set(held, { code, message: () => message }, forMs ?? hinderedMs)
      await changes.tell(session, { type: "prompt.waiting", prompt: held, code, message })
    }

    const forget = (): void => {
      if (told !== undefined) waits.clear(told.prompt)
      told = undefined
    }

    while (!signal.aborted) {
      await pause(limits.lookEveryMs, undefined, { signal, ref: false }).catch(() => {})
      if (signal.aborted) break
      try {
        await look()
      } catch (err) {
        // The store cannot be used now: the prompt goes on, and is looked at again.
        log.debug(
          { op: "prompt.watch", prompt: id, sandbox, err },
          "the store cannot be used; looking at the prompt again",
        )
      }
    }
    forget()
  }
}
