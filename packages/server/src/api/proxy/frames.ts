import type { Conversation } from "./conversations.ts"
import { violated } from "./failure.ts"
import { OPCODE, readFrameHeader, writeClose, writeFrame } from "./frame-header.ts"
import { JsonScan, tooMuch } from "./json-scan.ts"

/**
 * Estimated microseconds of processor time: of a frame that is passed on, a message that is parsed, each of its bytes,
 * and a control frame, which makes the client answer.
 */
const COST_US = { frame: 1, message: 50, byte: 0.05, control: 1_000 } as const

/** The close codes that RFC 6455 allows programs, beside their own from 3000 on. */
const CLOSE_CODES: ReadonlySet<number> = new Set([
  ...[1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014],
])

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

/** A frame that is passed on when it is whole. */
interface Held {
  readonly opcode: number
  readonly payload: Buffer
}

/**
 * Reads the frames that a sandbox sends. Binary frames are passed on as they come, without a copy. Messages are parsed
 * and written anew. The first invalid frame throws, after all before it were passed on.
 */
export class Frames {
  readonly #conversation: Conversation
  readonly #pass: (bytes: Buffer) => void
  /** The bytes of an incomplete header. */
  #head: Buffer = Buffer.alloc(0)
  /** Bytes of the current frame that are still to come. */
  #left = 0
  /** The frame that is held until it is whole. */
  #held: Held | undefined
  #hasBegun = false
  #isLast = false
  #isClosed = false

  constructor(conversation: Conversation, pass: (bytes: Buffer) => void) {
    this.#conversation = conversation
    this.#pass = pass
    this.#hasBegun = conversation.first.length === 0
  }

  /** Whether a frame has been passed on in part. */
  get isMidFrame(): boolean {
    return this.#left > 0 && this.#held === undefined
  }

  /** Whether the last message was sent. */
  get isLast(): boolean {
    return this.#isLast
  }

  /** Whether the close was sent, after which nothing is passed on. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Passes on the frames in the bytes, and returns an estimate of the microseconds that it took. */
  take(chunk: Buffer): number {
    const bytes = this.#head.length === 0 ? chunk : Buffer.concat([this.#head, chunk])
    let costUs = 0
    /** The first byte that is not passed on, and the first that is not parsed. */
    let [from, at] = [0, 0]
    const passUntil = (end: number) => {
      if (from < end) this.#pass(bytes.subarray(from, end))
      from = end
    }
    try {
      while (!this.#isClosed) {
        if (this.#left === 0 && this.#held === undefined) {
          const headerBytes = this.#begin(bytes, at)
          if (headerBytes === undefined) break
          if (this.#held !== undefined) passUntil(at)
          at += headerBytes
          costUs += COST_US.frame
        }
        const end = Math.min(bytes.length, at + this.#left)
        if (this.#held !== undefined) {
          const { payload } = this.#held
          bytes.copy(payload, payload.length - this.#left, at, end)
          from = end
        }
        this.#left -= end - at
        at = end
        if (this.#left > 0) break
        if (this.#held !== undefined) costUs += this.#finish(this.#held)
      }
    } finally {
      passUntil(at)
    }
    this.#head = this.#isClosed ? NOTHING : Buffer.from(bytes.subarray(at))
    return costUs
  }

  /** Reads a frame's header; undefined: it is not complete yet. */
  #begin(bytes: Buffer, at: number): number | undefined {
    const header = readFrameHeader(bytes, at)
    if (header === undefined) return undefined
    const { opcode, headerBytes, payloadBytes } = header
    if (opcode === OPCODE.binary) {
      this.#checkBinary(payloadBytes)
      if (this.#conversation.channels !== undefined) {
        const channel = bytes[at + headerBytes]
        if (channel === undefined && payloadBytes > 0) return undefined
        if (payloadBytes === 0 || !this.#conversation.channels.has(channel ?? -1))
          throw violated("sent bytes on a channel that is none")
      }
    } else {
      const { maxTextBytes } = this.#conversation
      if (payloadBytes > maxTextBytes) throw tooMuch("bytes of a message", maxTextBytes)
      this.#held = { opcode, payload: Buffer.allocUnsafe(payloadBytes) }
    }
    this.#left = payloadBytes
    return headerBytes
  }

  #checkBinary(payloadBytes: number): void {
    const { maxBinaryBytes } = this.#conversation
    if (maxBinaryBytes === 0) throw violated("sent bytes where it has none to send")
    if (payloadBytes > maxBinaryBytes) throw tooMuch("bytes of a frame", maxBinaryBytes)
    if (!this.#hasBegun || this.#isLast) throw violated("sent bytes before or after their time")
  }

  /** Passes on a frame that was held. */
  #finish({ opcode, payload }: Held): number {
    this.#held = undefined
    if (opcode === OPCODE.text) {
      this.#pass(writeFrame(OPCODE.text, Buffer.from(JSON.stringify(this.#parse(payload)))))
      return COST_US.message + payload.length * COST_US.byte
    }
    this.#pass(opcode === OPCODE.close ? this.#close(payload) : writeFrame(opcode, payload))
    return COST_US.control
  }

  #parse(payload: Buffer): unknown {
    const { schema, first, last } = this.#conversation
    new JsonScan().take(payload)
    const parsed = schema.safeParse(parseJson(payload))
    if (!parsed.success) {
      const [issue] = parsed.error.issues
      throw violated("sent a message of another form than is agreed on", {
        where: issue?.path.slice(0, 4).join(".").slice(0, 200),
        problem: issue?.code,
      })
    }
    const { type } = parsed.data
    const isFailure = last.includes(type) && type === "error"
    if (this.#isLast) throw violated("sent a message after its last")
    if (first.includes(type) === this.#hasBegun && !isFailure)
      throw violated("sent a message before or after its time")
    this.#hasBegun = true
    this.#isLast = last.includes(type)
    return parsed.data
  }

  #close(payload: Buffer): Buffer {
    const code = payload.length < 2 ? 0 : payload.readUInt16BE(0)
    const reason = payload.toString("latin1", 2)
    if (payload.length > 0 && !CLOSE_CODES.has(code) && (code < 3000 || code > 4999))
      throw violated("closed with a code that is none")
    if (!/^[\x20-\x7e]*$/.test(reason)) throw violated("closed with a reason that is no text")
    this.#isClosed = true
    return payload.length === 0 ? writeFrame(OPCODE.close, payload) : writeClose(code, reason)
  }
}

const NOTHING: Buffer = Buffer.alloc(0)

const parseJson = (payload: Buffer): unknown => {
  try {
    return JSON.parse(UTF8.decode(payload))
  } catch {
    throw violated("sent a message that is not JSON")
  }
}
