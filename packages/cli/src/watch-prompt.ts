import { setTimeout as pause } from "node:timers/promises"
import { BerthError } from "@berth/protocol/errors"
import type { Event, EventBody } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import type { Session } from "@berth/sdk/sessions"

export interface Watching {
  readonly session: Session
  readonly prompt: PromptId
  /** The number of the session's last event before it. */
  readonly after: number
  /** Takes what happens in the sandbox and with this prompt, not with others. */
  readonly show: (event: Event) => void
  /** The server went away. */
  readonly onBreak: (why: BerthError) => void
}

export interface Watched {
  readonly end: Extract<EventBody, { type: "prompt.state" }>
  /** False: it ended before it began. */
  readonly hasRun: boolean
}

/** Resolves when the prompt has ended. */
export const watchPrompt = async (
  { session, prompt, after, show, onBreak }: Watching,
  signal: AbortSignal,
): Promise<Watched> => {
  let hasRun = false
  let isBroken = false
  const onFirstBreak = (why: BerthError) => {
    if (!isBroken) onBreak(why)
    isBroken = true
  }
  for await (const event of session.events({ after, signal, onBreak: onFirstBreak })) {
    isBroken = false
    const { body } = event
    if ("prompt" in body && body.prompt !== undefined && body.prompt !== prompt) continue
    show(event)
    if (body.type !== "prompt.state" || body.state === "queued") continue
    if (body.state !== "running") return { end: body, hasRun }
    hasRun = true
  }
  throw new BerthError("cancelled", "nobody watches any more")
}

const ASK_AGAIN_MS = 500

/** Asks for the stop until a server has heard it. */
export const stopPrompt = async (
  { session, prompt }: Pick<Watching, "session" | "prompt">,
  signal: AbortSignal,
): Promise<void> => {
  for (;;) {
    try {
      await session.stop({ prompt, signal })
      return
    } catch (thrown) {
      if (!(thrown instanceof BerthError) || thrown.retry === "never") throw thrown
      await pause(ASK_AGAIN_MS, undefined, { signal })
    }
  }
}
