import type { ClientRequest } from "node:http"
import { boundInterim } from "@berth/host/bound-interim"
import type { Throttle } from "@berth/host/throttle"
import type {
  PromptStanding,
  PromptStart,
  ServerMessage,
  SupervisorMessage,
} from "@berth/protocol/bridge"
import { MAX_SUPERVISOR_MESSAGE_BYTES, PROTOCOL_GENERATION } from "@berth/protocol/bridge-limits"
import { BerthError } from "@berth/protocol/errors"
import type { Event } from "@berth/protocol/event"
import type { PromptId, SandboxId } from "@berth/protocol/ids"
import type { AskAnswer } from "@berth/protocol/session"
import { WebSocket } from "ws"
import { z } from "zod"
import { connectTo, type SandboxAddress } from "./address.ts"
import { Answers, type OnHostRequest } from "./answers.ts"
import { failureOf, failureOfClose, failureOfStatus } from "./failure.ts"
import { Heartbeat } from "./heartbeat.ts"
import { Inbox } from "./inbox.ts"
import { type Deadlines, MAX_HEADER_BYTES, MAX_MESSAGE_PIECES, MAX_UNSENT_BYTES } from "./limits.ts"
import { type Pace, threadMs } from "./pace.ts"
import { parseFromSandbox, parseSupervisorMessage } from "./parse.ts"
import { putToSandbox } from "./put.ts"
import { Queries } from "./queries.ts"
import { openTunnel } from "./tunnel.ts"

export interface ConnectionOptions {
  readonly address: SandboxAddress
  readonly token: string
  readonly sandbox: SandboxId
  readonly lastSeen: number
  readonly store: (events: readonly Event[]) => Promise<void>
  readonly onStored: (upTo: number) => void
  readonly onHostRequest: OnHostRequest
  readonly requestsThrottle: Throttle
  readonly pace: Pace
  readonly deadlines: Deadlines
}

type Hello = Extract<SupervisorMessage, { type: "hello" }>

/** The generation is read before the rest, which another generation may have changed. */
const AnyHello = z.object({ type: z.literal("hello"), generation: z.int() })

/** Connects to a sandbox and waits for its hello. Throws when there is none within the deadline. */
export const openConnection = async (
  options: ConnectionOptions,
  signal: AbortSignal,
): Promise<Connection> => {
  const overdue = new AbortController()
  const deadline = setTimeout(
    () =>
      overdue.abort(timedOut("the sandbox did not say hello in time", options.deadlines.openMs)),
    options.deadlines.openMs,
  )
  const opening = AbortSignal.any([signal, overdue.signal])
  try {
    const socket = await connectTo(options.address, opening)
    const websocket = new WebSocket("ws://sandbox/bridge", {
      createConnection: () => socket,
      headers: { authorization: `Bearer ${options.token}` },
      maxHeaderSize: MAX_HEADER_BYTES,
      maxPayload: MAX_SUPERVISOR_MESSAGE_BYTES,
      maxBufferedChunks: MAX_MESSAGE_PIECES,
      // A supervisor sends its messages whole, pings never, and compresses nothing.
      maxFragments: 1,
      autoPong: false,
      perMessageDeflate: false,
      followRedirects: false,
      finishRequest: (request: ClientRequest) => {
        boundInterim(request)
        request.end()
      },
    } as ConstructorParameters<typeof WebSocket>[2])
    const connection = new Connection(websocket, options)
    const giveUp = () => connection.end(opening.reason)
    opening.addEventListener("abort", giveUp)
    if (opening.aborted) giveUp()
    try {
      await connection.greeted
      return connection
    } finally {
      opening.removeEventListener("abort", giveUp)
    }
  } finally {
    clearTimeout(deadline)
  }
}

/** One connection to a sandbox. Any violation ends it with the reason. */
export class Connection {
  readonly #websocket: WebSocket
  readonly #options: ConnectionOptions
  readonly #inbox: Inbox
  readonly #queries: Queries
  readonly #answers: Answers
  readonly #heartbeat: Heartbeat
  readonly #greeting = Promise.withResolvers<Hello>()
  /** The reasons why nothing is read right now. */
  readonly #held = new Set<"rate" | "store">()
  #slowedDown: NodeJS.Timeout | undefined
  #hasGreeted = false
  #failure: BerthError | undefined
  /** Resolves with the reason when the connection is over and nothing of it is being stored or answered any more. */
  readonly ended: Promise<BerthError>

  constructor(websocket: WebSocket, options: ConnectionOptions) {
    const { lastSeen, store, deadlines } = options
    this.#websocket = websocket
    this.#options = options
    this.#queries = new Queries(deadlines.answerMs)
    this.#inbox = new Inbox({
      lastSeen,
      store,
      onStored: (upTo) => this.#acknowledge(upTo),
      onFull: (isFull) => this.#hold("store", isFull),
      onFailed: (error) => this.end(error),
    })
    this.#answers = new Answers({
      onHostRequest: options.onHostRequest,
      throttle: options.requestsThrottle,
      putBundle: (id, body, signal) => {
        const { address, token } = options
        return putToSandbox({ address, token, path: `/bundles/${id}`, body }, signal)
      },
      openTunnel: (id, signal) => {
        const { address, token } = options
        return openTunnel({ address, token, path: `/host-ports/${id}` }, signal)
      },
      send: (message) => this.#send(message),
    })
    this.#heartbeat = new Heartbeat({
      everyMs: deadlines.pingEveryMs,
      deadlineMs: deadlines.pongMs,
      ping: (payload) => websocket.ping(payload),
      onDead: () => this.end(timedOut("the sandbox stopped answering", deadlines.pongMs)),
    })
    this.#heartbeat.pause()
    this.ended = this.#listen()
    this.#greeting.promise.catch(() => {})
  }

  /** The sandbox's hello. Rejects when the connection ends before it. */
  get greeted(): Promise<Hello> {
    return this.#greeting.promise
  }

  startPrompt(start: PromptStart): Promise<PromptStanding> {
    return this.#query({ type: "prompt.start", ...start })
  }

  stopPrompt(prompt: PromptId): Promise<PromptStanding> {
    return this.#query({ type: "prompt.stop", prompt })
  }

  answerPrompt(prompt: PromptId, answer: AskAnswer): Promise<PromptStanding> {
    return this.#query({ type: "prompt.answer", prompt, answer })
  }

  /** Ends the connection at once. The first reason counts. */
  end(reason: unknown): void {
    this.#failure ??=
      reason instanceof BerthError
        ? reason
        : new BerthError("cancelled", "the bridge was closed", { cause: reason })
    this.#websocket.terminate()
  }

  #listen(): Promise<BerthError> {
    const { lastSeen, sandbox } = this.#options
    const { promise, resolve } = Promise.withResolvers<BerthError>()
    this.#websocket
      .on("open", () =>
        this.#send({ type: "hello", generation: PROTOCOL_GENERATION, sandbox, lastSeen }),
      )
      .on("message", (data, isBinary) => this.#receive(data as Buffer, isBinary))
      .on("ping", () => this.end(violated("the sandbox sent a ping")))
      .on("pong", (payload) => {
        if (!this.#heartbeat.answer(payload)) this.end(violated("the sandbox sent a wrong pong"))
      })
      .on("unexpected-response", (_, { statusCode }) => this.end(failureOfStatus(statusCode ?? 0)))
      .on("error", (error) => this.end(failureOf(error)))
      .on("close", (code, reason) => resolve(this.#finish(code, reason.toString("utf8"))))
    return promise
  }

  async #finish(code: number, reason: string): Promise<BerthError> {
    const failure = this.#failure ?? failureOfClose(code, reason)
    this.#failure = failure
    this.#heartbeat.stop()
    clearTimeout(this.#slowedDown)
    this.#greeting.reject(failure)
    this.#queries.endAll(
      new BerthError("bridge.down", "the connection to the sandbox ended before its answer", {
        details: { reason: failure.code },
        cause: failure,
      }),
    )
    await Promise.all([this.#inbox.close(), this.#answers.end()])
    return failure
  }

  #receive(bytes: Buffer, isBinary: boolean): void {
    if (this.#failure !== undefined) return
    try {
      if (isBinary) throw violated("the sandbox sent a binary message")
      if (this.#hasGreeted) this.#handle(this.#parse(bytes), bytes.length)
      else this.#greet(bytes)
    } catch (thrown) {
      this.end(thrown)
    }
  }

  /** Parses a message, and stops reading for as long as this sandbox is over its rate. */
  #parse(bytes: Buffer): SupervisorMessage {
    const before = threadMs()
    let events = 0
    try {
      const message = parseSupervisorMessage(bytes)
      if (message.type === "events") events = message.events.length
      return message
    } finally {
      this.#slowDown({ bytes: bytes.length, events, parseMs: threadMs() - before })
    }
  }

  #greet(bytes: Buffer): void {
    const { generation } = parseFromSandbox(bytes, AnyHello)
    if (generation !== PROTOCOL_GENERATION) {
      const message = "the sandbox's supervisor is of another generation"
      const details = { ours: PROTOCOL_GENERATION, theirs: generation }
      throw new BerthError("bridge.generation_mismatch", message, { details })
    }
    const hello = parseSupervisorMessage(bytes)
    if (hello.type !== "hello") throw violated("the sandbox did not begin with hello")
    this.#check(hello)
    this.#hasGreeted = true
    this.#heartbeat.resume()
    this.#greeting.resolve(hello)
  }

  #check({ sandbox, first, last }: Hello): void {
    const { lastSeen } = this.#options
    if (sandbox !== this.#options.sandbox) {
      throw new BerthError("bridge.foreign_id", "another sandbox answered", {
        details: { sandbox },
      })
    }
    if (last < lastSeen) {
      const message = "the sandbox does not know the events that were seen last"
      throw new BerthError("bridge.history_lost", message, { details: { lastSeen, first, last } })
    }
    if (first > lastSeen + 1) this.#inbox.skipTo(first - 1)
  }

  #handle(message: SupervisorMessage, bytes: number): void {
    switch (message.type) {
      case "hello":
        throw violated("the sandbox said hello twice")
      case "events":
        this.#inbox.take(message.events, bytes)
        break
      case "prompt.standing":
        this.#queries.answer(message.prompt, message.standing)
        break
      case "prompt.refused":
        this.#queries.refuse(message.prompt, message.code, message.reason)
        break
      case "ask":
        this.#answers.take(message.id, message.ask)
    }
  }

  /** Stops reading until the sandbox is back at its allowed rate. */
  #slowDown(message: Parameters<Pace["take"]>[0]): void {
    const waitMs = this.#options.pace.take(message, performance.now())
    if (waitMs === 0) return
    this.#hold("rate", true)
    clearTimeout(this.#slowedDown)
    this.#slowedDown = setTimeout(() => this.#hold("rate", false), waitMs)
  }

  #hold(why: "rate" | "store", isHeld: boolean): void {
    if (this.#failure !== undefined) return
    const wasHeld = this.#held.size > 0
    if (isHeld) this.#held.add(why)
    else this.#held.delete(why)
    if (wasHeld === this.#held.size > 0) return
    if (wasHeld) {
      this.#websocket.resume()
      this.#heartbeat.resume()
    } else {
      this.#websocket.pause()
      this.#heartbeat.pause()
    }
  }

  #acknowledge(upTo: number): void {
    this.#options.onStored(upTo)
    if (this.#failure === undefined) this.#send({ type: "acknowledge", upTo })
  }

  async #query(
    message: Extract<ServerMessage, { type: "prompt.start" | "prompt.stop" | "prompt.answer" }>,
  ): Promise<PromptStanding> {
    if (this.#websocket.bufferedAmount > MAX_UNSENT_BYTES)
      throw new BerthError("bridge.congested", "the sandbox does not read what is sent to it")
    const answer = this.#queries.add(message.prompt)
    this.#send(message)
    return await answer
  }

  #send(message: ServerMessage): void {
    // A sandbox that sends events and reads no acknowledgements would slowly fill the memory.
    if (this.#websocket.bufferedAmount > MAX_UNSENT_BYTES)
      this.end(new BerthError("bridge.congested", "the sandbox does not read what is sent to it"))
    else this.#websocket.send(JSON.stringify(message), () => {})
  }
}

const timedOut = (message: string, deadlineMs: number): BerthError =>
  new BerthError("bridge.timed_out", message, { details: { deadlineMs } })

const violated = (message: string): BerthError =>
  new BerthError("bridge.protocol_violated", message)
