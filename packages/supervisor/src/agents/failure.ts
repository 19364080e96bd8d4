import type { BerthError } from "@berth/protocol/errors"
import type { EventBody } from "@berth/protocol/event"
import type { PromptId } from "@berth/protocol/ids"
import { clip } from "./clip.ts"

const MAX_WORDS = 4_000

/** What a reader of the session is told of it. */
export const errorEvent = (prompt: PromptId, { code, message, hint }: BerthError): EventBody => ({
  ...{ type: "error", prompt, code, hint },
  message: clip(message, MAX_WORDS),
})
