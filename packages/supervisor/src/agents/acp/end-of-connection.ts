import type { PromptId } from "@berth/protocol/ids"
import type { Clock } from "../../processes/clock.ts"

/** From the end of an agent's streams to its exit. One that crashes exits at once; the rest of a stop's second is left to end it. */
export const EXITS_WITHIN_MS = 200

/** How a life of an agent came to its end. */
export interface ConnectionEnd {
  /** Its streams ended, and it lived on. */
  readonly isBroken: boolean
  /** The prompts that it worked on then. */
  readonly prompts: ReadonlySet<PromptId>
}

export interface EndOfConnectionParts {
  /** Fires when the agent's streams have ended. */
  readonly over: AbortSignal
  readonly clock: Clock
  readonly exited: Promise<unknown>
  /** What the agent works on, as it changes. */
  readonly prompts: ReadonlySet<PromptId>
  /** Ends an agent that can no longer be spoken with. */
  readonly end: (isAtWork: boolean) => Promise<void>
}

/** Resolves after the end of an agent's streams, once its process has ended as well. */
export const endOfConnection = async (parts: EndOfConnectionParts): Promise<ConnectionEnd> => {
  const { over, clock, exited, end } = parts
  const prompts = await new Promise<ReadonlySet<PromptId>>((resolve) => {
    const onOver = () => resolve(new Set(parts.prompts))
    if (over.aborted) onOver()
    else over.addEventListener("abort", onOver, { once: true })
  })
  const { promise: isExited, resolve } = Promise.withResolvers<boolean>()
  const takeBack = clock.after(EXITS_WITHIN_MS, () => resolve(false))
  void exited.then(() => resolve(true))
  const isBroken = !(await isExited)
  takeBack()
  // It may still be at work, and nobody would hear of it.
  if (isBroken) await end(prompts.size > 0)
  return { isBroken, prompts }
}
