import { setTimeout as pause } from "node:timers/promises"
import { Throttle } from "@berth/host/throttle"
import type { PromptStanding, PromptStart } from "@berth/protocol/bridge"
import { BerthError } from "@berth/protocol/errors"
import type { Event } from "@berth/protocol/event"
import type { PromptId, SandboxId } from "@berth/protocol/ids"
import type { AskAnswer } from "@berth/protocol/session"
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
export const openBridge = (options: BridgeOptions, signal: AbortSignal): Bridge =>
  new KeptConnection(options, signal)

class KeptConnection implements Bridge {
  readonly #options: BridgeOptions
  readonly #signal: AbortSignal
  readonly #deadlines: Deadlines
  // Throttle and pace last over all connections, so that a new one brings no new burst.
  readonly #throttle: Throttle
  readonly #pace: Pace
  #lastSeen: number
  #state: BridgeState = { kind: "connecting" }
  #connection: Connection | undefined
  readonly closed: Promise<void>

  constructor(options: BridgeOptions, signal: AbortSignal) {
    this.#options = options
    this.#signal = signal
    this.#deadlines = { ...DEADLINES, ...options.deadlines }
    const startedMs = performance.now()
    const rate = { perSecond: HOST_REQUESTS_PER_SECOND, burst: BURST_HOST_REQUESTS }
    this.#throttle = new Throttle(rate, startedMs)
    this.#pace = new Pace(startedMs)
    this.#lastSeen = options.lastSeen
    this.closed = this.#keepConnected()
  }

  get state(): BridgeState {
    return this.#state
  }

  get lastSeen(): number {
    return this.#lastSeen
  }

  async startPrompt(start: PromptStart): Promise<PromptStanding> {
    return await this.#up().startPrompt(start)
  }

  async stopPrompt(prompt: PromptId): Promise<PromptStanding> {
    return await this.#up().stopPrompt(prompt)
  }

  async answerPrompt(prompt: PromptId, answer: AskAnswer): Promise<PromptStanding> {
    return await this.#up().answerPrompt(prompt, answer)
  }

  async #keepConnected(): Promise<void> {
    const signal = this.#signal
    const wrongs = new Wrongs()
    for (let breaks = 0; !signal.aborted; ) {
      const before = this.#lastSeen
      const reason = await this.#connectOnce()
      if (signal.aborted) break
      // A connection that brought events before it broke was a good one, so the count of breaks begins anew.
      breaks = this.#lastSeen > before ? 1 : breaks + 1
      const failures = isWrong(reason.code) ? wrongs.add(performance.now()) : breaks
      const retryInMs = retryDelayMs(failures, reason.code, Math.random())
      this.#enter({ kind: "down", reason, retryInMs })
      await pause(retryInMs, undefined, { signal }).catch(() => {})
    }
    this.#enter({ kind: "closed" })
  }

  /** Connects, and resolves with the reason when the connection is over or could not be made. */
  async #connectOnce(): Promise<BerthError> {
    this.#enter({ kind: "connecting" })
    const { address, token, sandbox, onEvents, onHostRequest = answerNothing } = this.#options
    try {
      this.#connection = await openConnection(
        {
          address,
          token,
          sandbox,
          lastSeen: this.#lastSeen,
          store: onEvents,
          onStored: (upTo) => {
            this.#lastSeen = upTo
          },
          onHostRequest,
          requestsThrottle: this.#throttle,
          pace: this.#pace,
          deadlines: this.#deadlines,
        },
        this.#signal,
      )
    } catch (thrown) {
      return asFailure(thrown)
    }
    return await this.#whileUp(this.#connection)
  }

  async #whileUp(connection: Connection): Promise<BerthError> {
    const signal = this.#signal
    const onAbort = () => connection.end(signal.reason)
    signal.addEventListener("abort", onAbort)
    if (signal.aborted) onAbort()
    else this.#enter({ kind: "up" })
    const reason = await connection.ended
    this.#connection = undefined
    signal.removeEventListener("abort", onAbort)
    return reason
  }

  #up(): Connection {
    const state = this.#state
    if (state.kind === "up" && this.#connection !== undefined) return this.#connection
    const reason = state.kind === "down" ? state.reason : undefined
    throw new BerthError("bridge.down", "the sandbox is not connected right now", {
      details: { state: state.kind, ...(reason && { reason: reason.code }) },
      cause: reason,
    })
  }

  #enter(state: BridgeState): void {
    this.#state = state
    this.#options.onState?.(state)
  }
}

const asFailure = (thrown: unknown): BerthError =>
  thrown instanceof BerthError
    ? thrown
    : new BerthError("internal", "the bridge failed unexpectedly", { cause: thrown })
