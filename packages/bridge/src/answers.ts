import type { Socket } from "node:net"
import type { Readable } from "node:stream"
import { setTimeout as pause } from "node:timers/promises"
import type { Throttle } from "@berth/host/throttle"
import type { Answer, Ask, AskId, ServerMessage } from "@berth/protocol/bridge"
import { MAX_PENDING_ASKS, MAX_REASON_CHARS } from "@berth/protocol/bridge-limits"
import { BerthError, toWireError } from "@berth/protocol/errors"

/** A request of a sandbox to its host, and the means to send what it asked for. */
export interface HostRequest {
  readonly ask: Ask
  /** Resolves when the sandbox has received all of it. */
  readonly sendBundle: (body: Readable) => Promise<void>
  /** Opens the connection that waits in the sandbox. The caller ends it. */
  readonly openTunnel: () => Promise<Socket>
}

/**
 * Answers a host request. Settles soon after the signal fires: the connection is over then, and the sandbox asks again on
 * the next.
 */
export type OnHostRequest = (request: HostRequest, signal: AbortSignal) => Promise<Answer>

export interface AnswersOptions {
  readonly onHostRequest: OnHostRequest
  /** One throttle for all connections to a sandbox: connecting anew gives it no more. */
  readonly throttle: Throttle
  readonly putBundle: (id: AskId, body: Readable, signal: AbortSignal) => Promise<void>
  readonly openTunnel: (id: AskId, signal: AbortSignal) => Promise<Socket>
  readonly send: (message: Extract<ServerMessage, { type: "answer" }>) => void
}

/**
 * The host requests of one connection: one of each kind is answered at a time, the others wait. Each costs the host work,
 * and that for a repo may take minutes: a credential does not wait for it.
 */
export class Answers {
  readonly #options: AnswersOptions
  readonly #over = new AbortController()
  readonly #outstanding = new Set<AskId>()
  readonly #waiting = new Set<{ readonly id: AskId; readonly ask: Ask }>()
  readonly #answering = new Map<Ask["kind"], Promise<void>>()

  constructor(options: AnswersOptions) {
    this.#options = options
  }

  /** Throws if the sandbox asks as no supervisor does. */
  take(id: AskId, ask: Ask): void {
    if (this.#outstanding.has(id))
      throw new BerthError("bridge.protocol_violated", "the sandbox asked twice under one id")
    if (this.#outstanding.size >= MAX_PENDING_ASKS) {
      throw new BerthError("bridge.limit_exceeded", "the sandbox requests too much at once", {
        details: { limit: "asks", max: MAX_PENDING_ASKS },
      })
    }
    this.#outstanding.add(id)
    this.#waiting.add({ id, ask })
    this.#advance()
  }

  /** The connection is over: cancels the running answers, and waits for them. */
  async end(): Promise<void> {
    this.#waiting.clear()
    this.#over.abort(new BerthError("cancelled", "the connection to the sandbox is over"))
    await Promise.all(this.#answering.values())
  }

  #advance(): void {
    for (const next of this.#waiting) {
      const { kind } = next.ask
      if (this.#answering.has(kind)) continue
      this.#waiting.delete(next)
      const answering = this.#answer(next.id, next.ask).finally(() => {
        this.#answering.delete(kind)
        this.#advance()
      })
      this.#answering.set(kind, answering)
    }
  }

  async #answer(id: AskId, ask: Ask): Promise<void> {
    const { onHostRequest, putBundle, openTunnel, throttle, send } = this.#options
    const { signal } = this.#over
    const sendBundle = (body: Readable) => putBundle(id, body, signal)
    const request = { ask, sendBundle, openTunnel: () => openTunnel(id, signal) }
    const waitMs = throttle.take(1, performance.now())
    const answer = await pause(waitMs, undefined, { signal })
      .then(() => onHostRequest(request, signal))
      .catch(refusal)
    if (signal.aborted) return
    this.#outstanding.delete(id)
    send({ type: "answer", id, answer })
  }
}

/** The answer to a failed request: code and message, without the details, which are the host's. */
const refusal = (thrown: unknown): Answer => {
  const { code, message } = toWireError(thrown)
  return { kind: "refused", code, reason: message.slice(0, MAX_REASON_CHARS) }
}

/** The default where no answers are configured. */
export const answerNothing: OnHostRequest = async () => {
  throw new BerthError("bridge.refused", "this server answers no questions of sandboxes")
}
