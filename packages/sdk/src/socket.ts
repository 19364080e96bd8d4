import { BerthError } from "@berth/protocol/errors"
import {
  BEARER_SUBPROTOCOL,
  REFUSED_SUBPROTOCOL,
  SocketRefusal,
  SUBPROTOCOL,
} from "@berth/protocol/sandboxes"
import { type CallOptions, type Connection, parseJson, within } from "./call.ts"
import { cancelled } from "./pause.ts"
import { errorOf, notBerth } from "./reply-error.ts"

/** Frames that may wait to be read before the other side is held up, where the platform can do that. */
const MAX_WAITING_FRAMES = 64

/**
 * Bytes that may wait to be sent before `send` holds up its caller. No event tells when they are sent, so `send` polls.
 */
const MAX_UNSENT_BYTES = 1024 * 1024
const LOOK_AGAIN_MS = 2

/** The methods with which a WebSocket can hold up the other side; browsers' own lack them. */
interface Pausable {
  pause(): void
  resume(): void
  terminate(): void
}

/** The time that the other side has to agree to the close, where that would keep a process alive. */
const CLOSE_MS = 500

/** A WebSocket to a sandbox, read frame by frame. */
export class Socket {
  readonly #websocket: WebSocket
  readonly #pausable: Pausable | undefined
  readonly #frames: (string | Uint8Array)[] = []
  readonly #closed = Promise.withResolvers<void>()
  #wake: (() => void) | undefined
  #isPaused = false
  #end: { readonly failure: BerthError | undefined } | undefined

  constructor(websocket: WebSocket) {
    this.#websocket = websocket
    this.#pausable = "pause" in websocket ? (websocket as unknown as Pausable) : undefined
    websocket.binaryType = "arraybuffer"
    websocket.addEventListener("message", ({ data }) => this.#receive(data))
    websocket.addEventListener("close", () => {
      this.#finish(undefined)
      this.#closed.resolve()
    })
  }

  /** Resolves when the connection is over. */
  get closed(): Promise<void> {
    return this.#closed.promise
  }

  /** The next frame; undefined after the last. Throws the reason if the connection was refused or cut off. */
  async next(): Promise<string | Uint8Array | undefined> {
    for (;;) {
      const frame = this.#frames.shift()
      if (frame !== undefined) {
        if (this.#isPaused && this.#frames.length < MAX_WAITING_FRAMES / 2) this.#pause(false)
        return frame
      }
      if (this.#end?.failure) throw this.#end.failure
      if (this.#end) return undefined
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }

  /** Resolves when there is room for more. Data that is sent after the end is dropped. */
  async send(data: string | Uint8Array): Promise<void> {
    if (this.#websocket.readyState !== OPEN) return
    this.#websocket.send(data as string | Uint8Array<ArrayBuffer>)
    while (this.#websocket.bufferedAmount > MAX_UNSENT_BYTES && this.#websocket.readyState === OPEN)
      await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))
  }

  /** Ends the connection; readers get the reason, if any. May be called twice. */
  close(reason?: BerthError): void {
    this.#finish(reason)
    if (this.#isPaused) this.#pause(false)
    this.#websocket.close()
    const late = this.#pausable && setTimeout(() => this.#pausable?.terminate(), CLOSE_MS)
    void this.closed.then(() => clearTimeout(late))
  }

  #receive(data: unknown): void {
    if (this.#end !== undefined) return
    const frame = typeof data === "string" ? data : new Uint8Array(data as ArrayBuffer)
    const refusal = typeof frame === "string" ? refusalIn(frame) : undefined
    if (refusal !== undefined) {
      this.close(refusal)
      return
    }
    this.#frames.push(frame)
    if (!this.#isPaused && this.#frames.length >= MAX_WAITING_FRAMES) this.#pause(true)
    this.#wakeUp()
  }

  #finish(failure: BerthError | undefined): void {
    this.#end ??= { failure }
    if (failure !== undefined) this.#frames.length = 0
    this.#wakeUp()
  }

  #pause(isPaused: boolean): void {
    this.#isPaused = isPaused
    if (isPaused) this.#pausable?.pause()
    else this.#pausable?.resume()
  }

  #wakeUp(): void {
    this.#wake?.()
    this.#wake = undefined
  }
}

/** `WebSocket.OPEN`, which is a constant of the standard. */
const OPEN = 1

/** Opens a connection. The signal ends it also afterwards. */
export const openSocket = async (
  connection: Connection,
  path: string,
  { signal, deadlineMs = connection.deadlineMs }: CallOptions = {},
): Promise<Socket> => {
  const { find, WebSocket } = connection
  if (WebSocket === undefined) throw withoutWebSocket()
  const { url, token } = await within(connection, { signal, deadlineMs }, find)
  if (signal?.aborted) throw cancelled()
  const address = new URL(path, url)
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:"
  // Browsers cannot send the token as a header.
  const bearer = token === undefined ? [] : [`${BEARER_SUBPROTOCOL}${token}`]
  const websocket = new WebSocket(address, [SUBPROTOCOL, REFUSED_SUBPROTOCOL, ...bearer])
  const socket = new Socket(websocket)
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const fail = (why: BerthError) => {
    reject(why)
    socket.close(why)
  }
  const timer = setTimeout(() => {
    const message = `the server at ${url} did not answer within ${deadlineMs} ms`
    fail(new BerthError("deadline.exceeded", message, { details: { url, deadlineMs } }))
  }, deadlineMs)
  const onAbort = () => fail(cancelled())
  signal?.addEventListener("abort", onAbort, { once: true })
  websocket.addEventListener("open", () => resolve(), { once: true })
  websocket.addEventListener("error", () => {
    const message = `the server at ${url} cannot be reached`
    reject(new BerthError("server.unreachable", message, { details: { url } }))
  })
  void socket.closed.then(() => {
    signal?.removeEventListener("abort", onAbort)
    reject(notBerth(url, 0))
  })
  try {
    await promise
    // Throws the reason of the refusal.
    if (websocket.protocol === REFUSED_SUBPROTOCOL) await socket.next()
    return socket
  } finally {
    clearTimeout(timer)
  }
}

/** The error of a runtime without WebSockets. Node has them since version 22. */
const withoutWebSocket = (): BerthError =>
  new BerthError(
    "client.runtime_too_old",
    "commands, terminals, watches and ports need a WebSocket, which this runtime does not have",
  )

const refusalIn = (frame: string): BerthError | undefined => {
  // The text is checked before it is parsed: a refusal is rare, and frames are many.
  if (!frame.startsWith('{"type":"refused"')) return undefined
  const parsed = SocketRefusal.safeParse(parseJson(frame))
  return parsed.success ? errorOf(parsed.data.error) : undefined
}
