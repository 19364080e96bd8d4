import { violated } from "./failure.ts"

/** The opcodes of RFC 6455 that are used here. */
export const OPCODE = { text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const

export interface FrameHeader {
  readonly opcode: number
  readonly headerBytes: number
  readonly payloadBytes: number
}

const KNOWN: ReadonlySet<number> = new Set(Object.values(OPCODE))

/** The longest payload of a control frame. */
const MAX_CONTROL_BYTES = 125

/**
 * Reads the header of a sandbox's frame; undefined: the bytes end before it does. A supervisor sends each message in
 * one frame, without a mask and without an extension, and writes lengths in the shortest form.
 */
export const readFrameHeader = (bytes: Buffer, at: number): FrameHeader | undefined => {
  const [first, second] = [bytes[at], bytes[at + 1]]
  if (first === undefined || second === undefined) return undefined
  const opcode = first & 0x0f
  if ((first & 0x70) !== 0) throw violated("sent a frame of an extension that was not agreed on")
  if ((first & 0x80) === 0 || opcode === 0) throw violated("sent a message in parts")
  if (!KNOWN.has(opcode)) throw violated("sent a frame of an unknown kind")
  if ((second & 0x80) !== 0) throw violated("sent a frame with a mask")
  if (second < 126) return { opcode, headerBytes: 2, payloadBytes: second }
  if (opcode > MAX_DATA_OPCODE)
    throw violated(`sent a control frame of more than ${MAX_CONTROL_BYTES} bytes`)
  const headerBytes = second === 126 ? 4 : 10
  if (bytes.length < at + headerBytes) return undefined
  const payloadBytes =
    second === 126 ? bytes.readUInt16BE(at + 2) : Number(bytes.readBigUInt64BE(at + 2))
  if (payloadBytes < (second === 126 ? 126 : 65_536))
    throw violated("wrote a frame's length in more bytes than it takes")
  return { opcode, headerBytes, payloadBytes }
}

/** Opcodes above this are of control frames. */
const MAX_DATA_OPCODE = 7

/** A frame as a server sends it: whole, and without a mask. */
export const writeFrame = (opcode: number, payload: Buffer): Buffer => {
  const { length } = payload
  const headerBytes = length < 126 ? 2 : length < 65_536 ? 4 : 10
  const frame = Buffer.allocUnsafe(headerBytes + length)
  frame[0] = 0x80 | opcode
  frame[1] = headerBytes === 2 ? length : headerBytes === 4 ? 126 : 127
  if (headerBytes === 4) frame.writeUInt16BE(length, 2)
  if (headerBytes === 10) frame.writeBigUInt64BE(BigInt(length), 2)
  payload.copy(frame, headerBytes)
  return frame
}

export const writeClose = (code: number, reason = ""): Buffer =>
  writeFrame(OPCODE.close, Buffer.concat([Buffer.of(code >> 8, code & 0xff), Buffer.from(reason)]))
