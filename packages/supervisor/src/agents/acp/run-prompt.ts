import { basename } from "node:path"
import { pathToFileURL } from "node:url"
import type { ContentBlock, PromptResponse, StopReason } from "@agentclientprotocol/sdk/unstable"
import type { PromptResult, PromptStart } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { Clock } from "../../processes/clock.ts"
import { failureOf, type Told } from "./failure.ts"
import type { Life } from "./process.ts"
import type { Turn } from "./turn.ts"

/**
 * How long an agent may take to confirm a stop. Its process is ended then, for which the rest of the second is left.
 */
export const STOP_WITHIN_MS = 700

export interface PromptParts {
  readonly options: Told
  readonly life: Life
  readonly clock: Clock
  /** The agent's own id of the conversation. */
  readonly session: string
  readonly turn: Turn
  /** Fires when the prompt is to be stopped. */
  readonly signal: AbortSignal
  /** Ends the terminals that the agent opened for this conversation. */
  readonly endTerminals: () => Promise<void>
  /** Ends the agent's process if the agent does not stop when asked. */
  readonly endProcess: () => Promise<void>
}

/** Sends a prompt to the agent, and waits until it has ended its turn. */
export const runPrompt = async (start: PromptStart, parts: PromptParts): Promise<PromptResult> => {
  const { options, life, clock, session: sessionId, turn, signal, endTerminals, endProcess } = parts
  const { agent, over } = life.connection
  const { title } = options
  if (signal.aborted) return { state: "stopped" }
  const tooLate = Promise.withResolvers<undefined>()
  let takeBack = () => {}
  let ended: Promise<unknown> = Promise.resolve()
  const stop = () => {
    turn.cancel()
    agent.notify("session/cancel", { sessionId }).catch(() => {})
    ended = endTerminals()
    takeBack = clock.after(STOP_WITHIN_MS, () => tooLate.resolve(undefined))
  }
  signal.addEventListener("abort", stop, { once: true })
  try {
    const prompt = blocksOf(start)
    const asked = agent.request("session/prompt", { sessionId, prompt })
    const response = await Promise.race([asked, tooLate.promise])
    if (response === undefined) {
      await endProcess()
      return stoppedByForce(title)
    }
    await turn.spent(response.usage)
    if (turn.failure !== undefined && !signal.aborted)
      throw new BerthError("agent.failed", `${title} failed: ${turn.failure}`)
    return resultOf(title, response, signal)
  } catch (thrown) {
    if (signal.aborted) return { state: "stopped" }
    throw failureOf(options, thrown, over)
  } finally {
    takeBack()
    signal.removeEventListener("abort", stop)
    await ended
  }
}

/** Sends attachments as links: every agent can follow a link, few accept embedded content. */
const blocksOf = ({ text, attachments = [] }: PromptStart): ContentBlock[] => [
  { type: "text", text },
  ...attachments.map(
    (path) =>
      ({ type: "resource_link", uri: pathToFileURL(path).href, name: basename(path) }) as const,
  ),
]

const UNFINISHED: Readonly<Partial<Record<StopReason, string>>> = {
  max_tokens: "the model's answer became too long",
  max_turn_requests: "it took too many steps",
  refusal: "it refused to go on",
}

const resultOf = (
  title: string,
  { stopReason }: PromptResponse,
  signal: AbortSignal,
): PromptResult => {
  if (signal.aborted) return { state: "stopped" }
  if (stopReason === "cancelled") return { state: "stopped", reason: STOPPED_INSIDE }
  const why = UNFINISHED[stopReason]
  return why === undefined
    ? { state: "succeeded" }
    : { state: "failed", reason: `${title} ended its turn: ${why}` }
}

const STOPPED_INSIDE = "it was stopped inside the sandbox"

const stoppedByForce = (title: string): PromptResult => ({
  state: "stopped",
  reason: `${title} did not stop within ${STOP_WITHIN_MS} ms, so its process was ended`,
})
