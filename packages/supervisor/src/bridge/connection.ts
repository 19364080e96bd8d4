import type { PromptStanding, ServerMessage, SupervisorMessage } from "@berth/protocol/bridge"
import { CLOSE, MAX_REASON_CHARS, PROTOCOL_GENERATION } from "@berth/protocol/bridge-limits"
import { BerthError, type ErrorCode, toWireError } from "@berth/protocol/errors"
import type { PromptId, SandboxId } from "@berth/protocol/ids"
import type { RawData, WebSocket } from "ws"
import type { Journal } from "../journal/journal.ts"
import { abortable } from "../processes/abortable.ts"
import type { HostRequests } from "./host-requests.ts"
import { parseServerMessage } from "./parse.ts"
import type { Prompts } from "./prompts.ts"

/** Time limit from the connection to the server's hello. */
export const HELLO_DEADLINE_MS = 5_000

/** Limit of the server's silence. It pings every few seconds, so a server that is silent for so long is gone. */
export const SILENCE_LIMIT_MS = 30_000

/** Time that a peer may take to answer a close. */
const CLOSE_GRACE_MS = 1_000

/** Limit of the events in one message, unless one event is larger. */
const BATCH_BYTES = 64 * 1024

/** The room for a reason in a close frame. */
const MAX_CLOSE_REASON_BYTES = 123

export interface ConnectionParts {
  readonly sandbox: SandboxId
  readonly journal: Promise<Journal>
  readonly prompts: Promise<Prompts>
  readonly hostRequests?: HostRequests | undefined
  /** Called when this connection has received a valid hello. From then on it is the only one. */
  readonly takeOver: (connection: Connection) => void
  readonly onFault: (error: BerthError) => void
  readonly helloDeadlineMs?: number
  readonly silenceLimitMs?: number
}

type Hello = Extract<ServerMessage, { type: "hello" }>

/**
 * A connection of the server: its hello, ours, then events and asks one way, acknowledgements, prompts and answers the
 * other.
 */
export class Connection {
  readonly #websocket: WebSocket
  readonly #parts: ConnectionParts
  readonly #over = new AbortController()
  #deadline: NodeJS.Timeout
  #greeted = false
  /** The number of the last event that was sent. */
  #sent = 0
  /** Resolves when the connection has closed. */
  readonly closed: Promise<void>

  constructor(websocket: WebSocket, parts: ConnectionParts) {
    this.#websocket = websocket
    this.#parts = parts
    const { helloDeadlineMs = HELLO_DEADLINE_MS } = parts
    this.#deadline = setTimeout(() => websocket.terminate(), helloDeadlineMs)
    websocket.on("message", (data, isBinary) => this.#receive(data, isBinary))
    websocket.on("ping", () => this.#deadline.refresh())
    // A "close" event follows every error.
    websocket.on("error", () => {})
    this.closed = new Promise((resolve) => websocket.once("close", () => resolve(this.#end())))
  }

  /** Closes the connection with a reason for the server. */
  close(code: number, reason: string): void {
    const bytes = Buffer.from(reason).subarray(0, MAX_CLOSE_REASON_BYTES)
    // Leaves out a character that is cut.
    this.#websocket.close(code, new TextDecoder().decode(bytes, { stream: true }))
    this.#terminateAfter(CLOSE_GRACE_MS)
  }

  #terminateAfter(ms: number): void {
    clearTimeout(this.#deadline)
    this.#deadline = setTimeout(() => this.#websocket.terminate(), ms)
  }

  #end(): void {
    clearTimeout(this.#deadline)
    this.#over.abort(new BerthError("bridge.dropped", "the connection is over"))
  }

  #receive(data: RawData, isBinary: boolean): void {
    try {
      if (isBinary) throw violation("a binary message")
      const message = parseServerMessage(data.toString())
      if (this.#greeted) this.#handle(message)
      else this.#greet(message)
    } catch (thrown) {
      this.#fail(thrown)
    }
  }

  #greet(message: ServerMessage): void {
    if (message.type !== "hello") throw violation(`${message.type} before hello`)
    this.#greeted = true
    this.#terminateAfter(this.#parts.silenceLimitMs ?? SILENCE_LIMIT_MS)
    if (message.generation !== PROTOCOL_GENERATION)
      throw new BerthError(
        "bridge.generation_mismatch",
        `it is of generation ${PROTOCOL_GENERATION}`,
      )
    if (message.sandbox !== this.#parts.sandbox) throw violation("a hello for another sandbox")
    this.#serve(message).catch((thrown: unknown) => this.#fail(thrown))
  }

  async #serve({ lastSeen }: Hello): Promise<void> {
    const { signal } = this.#over
    const journal = await abortable(this.#parts.journal, signal)
    const after = await journal.agree(lastSeen)
    await journal.acknowledge(after)
    signal.throwIfAborted()
    this.#parts.takeOver(this)
    const { sandbox } = this.#parts
    const { first, last } = journal
    this.#sent = after
    await this.#send({ type: "hello", generation: PROTOCOL_GENERATION, sandbox, first, last })
    this.#sayAsks()
    await this.#sendEvents(journal)
  }

  #sayAsks(): void {
    const { signal } = this.#over
    if (signal.aborted) return
    const disconnect = this.#parts.hostRequests?.connect((ask) => {
      // An ask that does not get through is sent again on the next connection.
      this.#send(ask).catch(() => {})
    })
    if (disconnect !== undefined) signal.addEventListener("abort", disconnect, { once: true })
  }

  async #sendEvents(journal: Journal): Promise<void> {
    const reader = journal.readAfter(this.#sent)
    try {
      for (;;) {
        const { first, events } = await reader.next(BATCH_BYTES, this.#over.signal)
        this.#sent = first + events.length - 1
        // The next batch waits until this one has left, so a server that does not read holds up nothing else.
        await this.#sendText(`{"type":"events","events":[${events.join(",")}]}`)
      }
    } finally {
      await reader.close()
    }
  }

  #handle(message: ServerMessage): void {
    this.#deadline.refresh()
    switch (message.type) {
      case "hello":
        throw violation("a second hello")
      case "acknowledge":
        this.#acknowledge(message.upTo)
        break
      case "prompt.start": {
        const { type: _, ...start } = message
        this.#answer(start.prompt, (prompts) => prompts.start(start))
        break
      }
      case "prompt.stop":
        this.#answer(message.prompt, (prompts) => prompts.stop(message.prompt))
        break
      case "prompt.answer":
        this.#answer(message.prompt, (prompts) => prompts.answer(message.prompt, message.answer))
        break
      case "answer":
        this.#parts.hostRequests?.answer(message.id, message.answer)
    }
  }

  #acknowledge(upTo: number): void {
    if (upTo > this.#sent) throw violation("an acknowledgement of what was not sent")
    // A segment that cannot be removed now is tried again with the next acknowledgement.
    this.#parts.journal.then((journal) => journal.acknowledge(upTo)).catch(this.#report)
  }

  #answer(prompt: PromptId, ask: (prompts: Prompts) => Promise<PromptStanding>): void {
    abortable(this.#parts.prompts, this.#over.signal)
      .then(ask)
      .then((standing) => this.#send({ type: "prompt.standing", prompt, standing }))
      .catch((thrown: unknown) => this.#refuse(prompt, thrown))
      .catch(() => {
        // The connection has closed. The server asks again on the next one.
      })
  }

  async #refuse(prompt: PromptId, thrown: unknown): Promise<void> {
    if (this.#over.signal.aborted) return
    this.#report(thrown)
    const { code, message } = toWireError(thrown)
    const reason = message.slice(0, MAX_REASON_CHARS)
    await this.#send({ type: "prompt.refused", prompt, code, reason })
  }

  #send(message: SupervisorMessage): Promise<void> {
    return this.#sendText(JSON.stringify(message))
  }

  #sendText(text: string): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#websocket.send(text, (error) => (error ? reject(error) : resolve()))
    })
  }

  #fail(thrown: unknown): void {
    if (this.#over.signal.aborted) return
    this.#report(thrown)
    const { code, message } = toWireError(thrown)
    this.close(CLOSE_CODES[code] ?? CLOSE.journalUnusable, message)
  }

  readonly #report = (thrown: unknown): void => {
    this.#parts.onFault(
      thrown instanceof BerthError
        ? thrown
        : new BerthError("internal", "the bridge failed", { cause: thrown }),
    )
  }
}

const CLOSE_CODES: Partial<Record<ErrorCode, number>> = {
  "bridge.generation_mismatch": CLOSE.generationMismatch,
  "bridge.protocol_violated": CLOSE.protocolViolated,
  "journal.not_held": CLOSE.historyLost,
  "journal.closed": CLOSE.stopping,
}

const violation = (what: string): BerthError =>
  new BerthError("bridge.protocol_violated", `the server sent what does not belong there: ${what}`)
