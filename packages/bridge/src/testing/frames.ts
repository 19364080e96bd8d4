import { createHash } from "node:crypto"
import type { Socket } from "node:net"

export interface FrameOptions {
  readonly opcode?: number
  readonly fin?: boolean
  readonly rsv1?: boolean
  readonly masked?: boolean
  /** The length in the header, whatever the payload is. */
  readonly length?: number | bigint
}

/** A WebSocket frame as a server sends it, or as no server should. */
export const frame = (
  payload: string | Buffer,
  { opcode = 1, fin = true, rsv1 = false, masked = false, length }: FrameOptions = {},
): Buffer => {
  const bytes = Buffer.from(payload)
  const said = length ?? bytes.length
  const first = (fin ? 0x80 : 0) | (rsv1 ? 0x40 : 0) | opcode
  const mask = masked ? 0x80 : 0
  const header = Buffer.alloc(said < 126 ? 2 : said < 65_536 ? 4 : 10)
  header[0] = first
  if (said < 126) header[1] = mask | Number(said)
  else if (said < 65_536) {
    header[1] = mask | 126
    header.writeUInt16BE(Number(said), 2)
  } else {
    header[1] = mask | 127
    header.writeBigUInt64BE(BigInt(said), 2)
  }
  return Buffer.concat([header, masked ? Buffer.alloc(4) : Buffer.alloc(0), bytes])
}

/** Reads an upgrade request, and returns the answer that accepts it. */
export const acceptance = async (socket: Socket, extraHeaders = ""): Promise<string> => {
  let request = ""
  while (!request.includes("\r\n\r\n")) {
    const [chunk] = await new Promise<Buffer[]>((resolve) =>
      socket.once("data", (data: Buffer) => resolve([data])),
    )
    request += String(chunk)
  }
  const key = /sec-websocket-key: (.*)\r\n/i.exec(request)?.[1] ?? ""
  const accept = createHash("sha1")
    .update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest("base64")
  return `HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: ${accept}\r\n${extraHeaders}\r\n`
}
