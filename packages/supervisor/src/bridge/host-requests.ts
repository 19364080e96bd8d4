import type { Duplex, Readable } from "node:stream"
import type {
  HostAnswer,
  HostRequest,
  HostRequestId,
  SupervisorMessage,
} from "@berth/protocol/bridge"
import { MAX_PENDING_HOST_REQUESTS } from "@berth/protocol/bridge-limits"
import { BerthError, ERRORS, type ErrorCode } from "@berth/protocol/errors"
import { randomId } from "@berth/protocol/random-id"
import type { IncomingBundle } from "./bundles.ts"

/** Time limit of an answer, including restarts of the server. A repo may be large, and comes before its answer. */
export const ANSWER_DEADLINES_MS: Readonly<Record<HostRequest["kind"], number>> = {
  credential: 60_000,
  keys: 60_000,
  "host-port": 30_000,
  repo: 30 * 60_000,
}

/** How long a request waits for a server to connect: longer than a restart takes. */
export const SERVER_ABSENT_MS = 30_000

export interface HostRequestsOptions {
  readonly answerDeadlinesMs?: Readonly<Record<HostRequest["kind"], number>>
  readonly serverAbsentMs?: number
}

export type Granted<Kind extends HostRequest["kind"]> = Extract<HostAnswer, { kind: Kind }>

/** The receiver of bytes that the server sends before its answer. */
export interface Incoming {
  readonly bundle?: IncomingBundle
  /** Called with the connection that was asked for. */
  readonly onTunnel?: (tunnel: Duplex) => void
}

type Speak = (message: Extract<SupervisorMessage, { type: "ask" }>) => void

interface Pending {
  readonly ask: HostRequest
  readonly incoming: Incoming
  readonly resolve: (answer: HostAnswer) => void
  readonly reject: (reason: unknown) => void
  absent: NodeJS.Timeout | undefined
}

/**
 * Host requests of the sandbox to its server. The server is the one that connects, so requests wait for its connection, and are repeated
 * on each new one.
 */
export class HostRequests {
  readonly #deadlinesMs: Readonly<Record<HostRequest["kind"], number>>
  readonly #absentMs: number
  readonly #pending = new Map<HostRequestId, Pending>()
  /**
   * Requests that were sent on this connection and are not answered. One that is not waited for any more stays in it,
   * as the server still counts it.
   */
  readonly #said = new Set<HostRequestId>()
  #speak: Speak | undefined

  constructor({
    answerDeadlinesMs = ANSWER_DEADLINES_MS,
    serverAbsentMs = SERVER_ABSENT_MS,
  }: HostRequestsOptions = {}) {
    this.#deadlinesMs = answerDeadlinesMs
    this.#absentMs = serverAbsentMs
  }

  /**
   * Sends a request, and resolves with what the server grants. Rejects with its refusal, if no server connects in time, and
   * when the signal fires.
   */
  async send<Kind extends HostRequest["kind"]>(
    ask: Extract<HostRequest, { kind: Kind }>,
    signal: AbortSignal,
    incoming: Incoming = {},
  ): Promise<Granted<Kind>> {
    signal.throwIfAborted()
    const id = randomId("ask") as HostRequestId
    const { promise, resolve, reject } = Promise.withResolvers<HostAnswer>()
    const pending: Pending = { ask, incoming, resolve, reject, absent: undefined }
    const deadlineMs = this.#deadlinesMs[ask.kind]
    const deadline = setTimeout(() => reject(overdue(ask, deadlineMs)), deadlineMs)
    const onAbort = () => reject(signal.reason)
    signal.addEventListener("abort", onAbort)
    this.#pending.set(id, pending)
    if (this.#speak === undefined) this.#missServer(pending)
    this.#sayMore()
    try {
      return granted(ask.kind, await promise)
    } finally {
      clearTimeout(deadline)
      clearTimeout(pending.absent)
      signal.removeEventListener("abort", onAbort)
      this.#pending.delete(id)
    }
  }

  /**
   * Called with a new connection: every waiting request is sent on it. Returns a function to call when the connection
   * is over.
   */
  connect(speak: Speak): () => void {
    this.#speak = speak
    this.#said.clear()
    for (const pending of this.#pending.values()) clearTimeout(pending.absent)
    this.#sayMore()
    return () => {
      // A later connection may have taken over.
      if (this.#speak !== speak) return
      this.#speak = undefined
      for (const pending of this.#pending.values()) this.#missServer(pending)
    }
  }

  answer(id: HostRequestId, answer: HostAnswer): void {
    const pending = this.#pending.get(id)
    this.#said.delete(id)
    // Removed at once, so that an answered request is not sent again.
    this.#pending.delete(id)
    pending?.resolve(answer)
    this.#sayMore()
  }

  /** Receives the bundle of a request. Returns false if no request waits for one. */
  async receive(id: string, body: Readable): Promise<boolean> {
    const pending = this.#pending.get(id as HostRequestId)
    const bundle = pending?.incoming.bundle
    if (pending === undefined || bundle === undefined) return false
    try {
      await bundle.receive(body)
    } catch (thrown) {
      // An error on this side would come again, so it rejects the request. After any other break it is sent
      // again.
      if (thrown instanceof BerthError) pending.reject(thrown)
      throw thrown
    }
    return true
  }

  /**
   * Returns the function that takes the connection of a request, and answers the request with it. Undefined if no
   * request waits for one.
   */
  takeTunnel(id: string): ((tunnel: Duplex) => void) | undefined {
    const pending = this.#pending.get(id as HostRequestId)
    const onTunnel = pending?.incoming.onTunnel
    if (onTunnel === undefined) return undefined
    this.#pending.delete(id as HostRequestId)
    pending?.resolve({ kind: "host-port" })
    return onTunnel
  }

  #sayMore(): void {
    if (this.#speak === undefined) return
    for (const [id, { ask }] of this.#pending) {
      if (this.#said.size >= MAX_PENDING_HOST_REQUESTS) return
      if (this.#said.has(id)) continue
      this.#said.add(id)
      this.#speak({ type: "ask", id, ask })
    }
  }

  #missServer(pending: Pending): void {
    pending.absent = setTimeout(() => pending.reject(noServer(this.#absentMs)), this.#absentMs)
  }
}

const granted = <Kind extends HostRequest["kind"]>(
  kind: Kind,
  answer: HostAnswer,
): Granted<Kind> => {
  if (answer.kind === kind) return answer as Granted<Kind>
  if (answer.kind !== "refused")
    throw new BerthError("bridge.protocol_violated", "the server answered another request")
  const code = Object.hasOwn(ERRORS, answer.code) ? (answer.code as ErrorCode) : "bridge.refused"
  throw new BerthError(code, answer.reason, { details: { asked: kind, refusedBy: "server" } })
}

const overdue = ({ kind }: HostRequest, deadlineMs: number): BerthError =>
  new BerthError("deadline.exceeded", "the server did not answer in time", {
    details: { asked: kind, deadlineMs },
  })

const noServer = (absentMs: number): BerthError =>
  new BerthError("server.not_running", "no server is connected to this sandbox", {
    details: { waitedMs: absentMs },
  })
