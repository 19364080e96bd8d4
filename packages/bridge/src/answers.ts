import type { Socket } from "node:net"
import type { Readable } from "node:stream"
import { setTimeout as pause } from "node:timers/promises"
import type { Throttle } from "@berth/host/throttle"
import type { HostAnswer, HostRequest, HostRequestId, ServerMessage } from "@berth/protocol/bridge"
import { MAX_PENDING_HOST_REQUESTS, MAX_REASON_CHARS } from "@berth/protocol/bridge-limits"
import { BerthError, toWireError } from "@berth/protocol/errors"

/** A request of a sandbox to its host, and the means to send what it asked for. */
export interface HostCall {
  readonly request: HostRequest
  /** Resolves when the sandbox has received all of it. */
  readonly sendBundle: (body: Readable) => Promise<void>
  /** Opens the connection that waits in the sandbox. The caller ends it. */
  readonly openTunnel: () => Promise<Socket>
}

/**
 * Answers a host request. Settles soon after the signal fires: the connection is over then, and the sandbox asks again on
 * the next.
 */
export type OnHostRequest = (call: HostCall, signal: AbortSignal) => Promise<HostAnswer>

export interface AnswersOptions {
  readonly onHostRequest: OnHostRequest
  /** One throttle for all connections to a sandbox: connecting anew gives it no more. */
  readonly throttle: Throttle
  readonly putBundle: (id: HostRequestId, body: Readable, signal: AbortSignal) => Promise<void>
  readonly openTunnel: (id: HostRequestId, signal: AbortSignal) => Promise<Socket>
  readonly send: (message: Extract<ServerMessage, { type: "answer" }>) => void
}

/**
 * The host requests of one connection: one of each kind is answered at a time, the others wait. Each costs the host work,
 * and that for a repo may take minutes: a credential does not wait for it.
 */
export class Answers {
  readonly #options: AnswersOptions
  readonly #over = new AbortController()
  readonly #outstanding = new Set<HostRequestId>()
  readonly #waiting = new Set<{ readonly id: HostRequestId; readonly request: HostRequest }>()
  readonly #answering = new Map<HostRequest["kind"], Promise<void>>()

  constructor(options: AnswersOptions) {
    this.#options = options
  }

  /** Throws if the sandbox asks as no supervisor does. */
  take(id: HostRequestId, request: HostRequest): void {
    if (this.#outstanding.has(id))
      throw new BerthError(
        "bridge.protocol_violated",
        "the sandbox sent two host requests under one id",
      )
    if (this.#outstanding.size >= MAX_PENDING_HOST_REQUESTS) {
      throw new BerthError("bridge.limit_exceeded", "the sandbox requests too much at once", {
        details: { limit: "host requests", max: MAX_PENDING_HOST_REQUESTS },
      })
    }
    this.#outstanding.add(id)
    this.#waiting.add({ id, request })
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
      const { kind } = next.request
      if (this.#answering.has(kind)) continue
      this.#waiting.delete(next)
      const answering = this.#answer(next.id, next.request).finally(() => {
        this.#answering.delete(kind)
        this.#advance()
      })
      this.#answering.set(kind, answering)
    }
  }

  async #answer(id: HostRequestId, request: HostRequest): Promise<void> {
    const { onHostRequest, putBundle, openTunnel, throttle, send } = this.#options
    const { signal } = this.#over
    const sendBundle = (body: Readable) => putBundle(id, body, signal)
    const call = { request, sendBundle, openTunnel: () => openTunnel(id, signal) }
    const waitMs = throttle.take(1, performance.now())
    const answer = await pause(waitMs, undefined, { signal })
      .then(() => onHostRequest(call, signal))
      .catch(refusal)
    if (signal.aborted) return
    this.#outstanding.delete(id)
    send({ type: "answer", id, answer })
  }
}

/** The answer to a failed request: code and message, without the details, which are the host's. */
const refusal = (thrown: unknown): HostAnswer => {
  const { code, message } = toWireError(thrown)
  return { kind: "refused", code, reason: message.slice(0, MAX_REASON_CHARS) }
}

/** The default where no answers are configured. */
export const answerNothing: OnHostRequest = async () => {
  throw new BerthError("bridge.refused", "this server answers no host requests of sandboxes")
}
