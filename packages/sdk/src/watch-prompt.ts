import { BerthError } from "@berth/protocol/errors"
import type { Event } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import type { PromptState } from "@berth/protocol/session"
import type { SessionCalls } from "./session-calls.ts"

export interface WatchOptions {
  readonly prompt: PromptId
  /** The number of the session's last event before the prompt. */
  readonly after: number
  /** Takes the events of this prompt and of its sandbox, not those of other prompts. */
  readonly onEvent?: ((event: Event) => void) | undefined
  /** Called once each time that the server goes away; the events go on when it is back. */
  readonly onBreak?: ((why: BerthError) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

/** The states in which a prompt ends. */
export type PromptEndState = Exclude<PromptState, "queued" | "running">

export interface PromptEnd {
  readonly state: PromptEndState
  /** Why the prompt ended as it did. */
  readonly reason?: string | undefined
  /** False where the prompt ended before it began. */
  readonly hasRun: boolean
}

/** Resolves when the prompt has ended, however it ended. */
export const watchPrompt = async (
  session: Pick<SessionCalls, "events" | "prompts">,
  { prompt, after, onEvent, onBreak, signal }: WatchOptions,
): Promise<PromptEnd> => {
  let hasRun = false
  let isBroken = false
  const onFirstBreak = (why: BerthError) => {
    if (!isBroken) onBreak?.(why)
    isBroken = true
  }
  for await (const event of session.events({ after, signal, onBreak: onFirstBreak })) {
    isBroken = false
    const { body } = event
    if ("prompt" in body && body.prompt !== undefined && body.prompt !== prompt) continue
    onEvent?.(event)
    if (body.type === "gap") {
      const end = await endBeforeGap(session, prompt, signal)
      if (end !== undefined) return end
    }
    if (body.type !== "prompt.state" || body.state === "queued") continue
    if (body.state !== "running") return { state: body.state, reason: body.reason, hasRun }
    hasRun = true
  }
  throw new BerthError("cancelled", "the prompt is no longer watched")
}

/** Looks for the prompt's end after a gap: its event can be among the lost ones. */
const endBeforeGap = async (
  session: Pick<SessionCalls, "prompts">,
  prompt: PromptId,
  signal: AbortSignal | undefined,
): Promise<PromptEnd | undefined> => {
  const found = (await session.prompts({ signal })).find(({ id }) => id === prompt)
  if (found === undefined)
    throw new BerthError("not_found", `the session has no prompt ${prompt} any more`)
  const { state, reason, startedAt } = found
  if (state === "queued" || state === "running") return undefined
  return { state, reason: reason ?? undefined, hasRun: startedAt !== null }
}
