import { setTimeout as pause } from "node:timers/promises"
import type { PromptStanding, PromptStart } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { Event } from "@berth/protocol/event"
import type { PromptId, SandboxId } from "@berth/protocol/ids"
import type { AskAnswer } from "@berth/protocol/session"
import { Throttle } from "../host/throttle.ts"
import type { SandboxAddress } from "./address.ts"
import { answerNothing, type OnHostRequest } from "./answers.ts"
import { isWrong, retryDelayMs, Wrongs } from "./backoff.ts"
import { type Connection, openConnection } from "./connection.ts"
import {
  BURST_HOST_REQUESTS,
  DEADLINES,
  type Deadlines,
  HOST_REQUESTS_PER_SECOND,
} from "./limits.ts"
import { Pace } from "./pace.ts"

/** connecting → up → down → connecting …; closed when the signal has fired. */
export type BridgeState =
  | { readonly kind: "connecting" }
  | { readonly kind: "up" }
  | { readonly kind: "down"; readonly reason: BerthError; readonly retryInMs: number }
  | { readonly kind: "closed" }

export interface BridgeOptions {
  readonly address: SandboxAddress
  readonly token: string
  readonly sandbox: SandboxId
  /** The last event of this sandbox that is stored; 0 before the first. */
  readonly lastSeen: number
  /**
   * Stores events, in order, one call at a time. When it resolves they are acknowledged, and forgotten inside; when it
   * rejects they come again. It has to look up to whom the prompts in them belong.
   */
  readonly onEvents: (events: readonly Event[]) => Promise<void>
  /** Answers the sandbox's host requests, one of each kind at a time. If it throws, the sandbox is told the message. */
  readonly onHostRequest?: OnHostRequest
  readonly onState?: (state: BridgeState) => void
  readonly deadlines?: Partial<Deadlines>
}

export interface Bridge {
  readonly state: BridgeState
  /** The last event that `onEvents` has stored. */
  readonly lastSeen: number
  /** Returns the state of the prompt, once that is on the sandbox's disk. May be repeated after any failure. */
  startPrompt(start: PromptStart): Promise<PromptStanding>
  stopPrompt(prompt: PromptId): Promise<PromptStanding>
  /** Rejects with session.nothing_asked where the agent does not wait for an answer. */
  answerPrompt(prompt: PromptId, answer: AskAnswer): Promise<PromptStanding>
  /** Resolves when the signal has fired and everything is released. */
  readonly closed: Promise<void>
}

/** Keeps a connection to a sandbox until the signal fires: after any break, it is made again and continues. */
export const openBridge = (options: BridgeOptions, signal: AbortSignal): Bridge => {
  const deadlines = { ...DEADLINES, ...options.deadlines }
  const { onHostRequest = answerNothing } = options
  // The throttles last over all connections, so that a new one brings no new burst.
  const startedMs = performance.now()
  const requestsThrottle = new Throttle(
    { perSecond: HOST_REQUESTS_PER_SECOND, burst: BURST_HOST_REQUESTS },
    startedMs,
  )
  const pace = new Pace(startedMs)
  let { lastSeen } = options
  let state: BridgeState = { kind: "connecting" }
  let connection: Connection | undefined
  const enter = (next: BridgeState) => {
    state = next
    options.onState?.(next)
  }

  const connectOnce = async (): Promise<BerthError> => {
    enter({ kind: "connecting" })
    try {
      const onStored = (upTo: number) => {
        lastSeen = upTo
      }
      const { address, token, sandbox, onEvents: store } = options
      const parts = { address, token, sandbox, store, lastSeen, onStored, deadlines }
      connection = await openConnection({ ...parts, onHostRequest, requestsThrottle, pace }, signal)
    } catch (thrown) {
      return asFailure(thrown)
    }
    return await whileUp(connection)
  }

  const whileUp = async (current: Connection): Promise<BerthError> => {
    const onAbort = () => current.end(signal.reason)
    signal.addEventListener("abort", onAbort)
    if (signal.aborted) onAbort()
    else enter({ kind: "up" })
    const reason = await current.ended
    connection = undefined
    signal.removeEventListener("abort", onAbort)
    return reason
  }

  const keepConnected = async (): Promise<void> => {
    const wrongs = new Wrongs()
    for (let breaks = 0; !signal.aborted; ) {
      const before = lastSeen
      const reason = await connectOnce()
      if (signal.aborted) break
      // A connection that brought events before it broke was a good one, so the count of breaks begins anew.
      breaks = lastSeen > before ? 1 : breaks + 1
      const failures = isWrong(reason.code) ? wrongs.add(performance.now()) : breaks
      const retryInMs = retryDelayMs(failures, reason.code, Math.random())
      enter({ kind: "down", reason, retryInMs })
      await pause(retryInMs, undefined, { signal }).catch(() => {})
    }
    enter({ kind: "closed" })
  }

  const up = (): Connection => {
    if (state.kind === "up" && connection !== undefined) return connection
    const reason = state.kind === "down" ? state.reason : undefined
    throw new BerthError("bridge.down", "the sandbox is not connected right now", {
      details: { state: state.kind, ...(reason && { reason: reason.code }) },
      cause: reason,
    })
  }

  return {
    get state() {
      return state
    },
    get lastSeen() {
      return lastSeen
    },
    startPrompt: async (start) => await up().startPrompt(start),
    stopPrompt: async (prompt) => await up().stopPrompt(prompt),
    answerPrompt: async (prompt, answer) => await up().answerPrompt(prompt, answer),
    closed: keepConnected(),
  }
}

const asFailure = (thrown: unknown): BerthError =>
  thrown instanceof BerthError
    ? thrown
    : new BerthError("internal", "the bridge failed unexpectedly", { cause: thrown })
