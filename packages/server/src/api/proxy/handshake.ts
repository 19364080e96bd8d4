import { createHash } from "node:crypto"
import { type IncomingMessage, STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import {
  BEARER_SUBPROTOCOL,
  REFUSED_SUBPROTOCOL,
  type SocketRefusal,
  SUBPROTOCOL,
} from "@berth/protocol/sandboxes"
import { bearerOf } from "../authorize.ts"

/** What a client says when it wants a WebSocket. */
export interface Handshake {
  readonly key: string
  readonly token: string | undefined
  /** The answer to the subprotocols that it offers. It offers some exactly when it is a browser's. */
  readonly subprotocol: string | undefined
  /** The answer with which it is refused. */
  readonly refusedBy: string | undefined
}

export const readHandshake = ({ method, headers }: IncomingMessage): Handshake => {
  const key = headers["sec-websocket-key"] ?? ""
  const isWebSocket =
    method === "GET" &&
    headers.upgrade?.toLowerCase() === "websocket" &&
    headers["sec-websocket-version"] === "13" &&
    /^[A-Za-z0-9+/]{22}==$/.test(key)
  if (!isWebSocket) throw new BerthError("input.invalid", "that is no WebSocket's handshake")
  const offered = (headers["sec-websocket-protocol"] ?? "").split(/ *, */)
  const bearer = offered.find((name) => name.startsWith(BEARER_SUBPROTOCOL))
  const token = bearer?.slice(BEARER_SUBPROTOCOL.length) ?? bearerOf(headers.authorization)
  const subprotocol = offered.includes(SUBPROTOCOL) ? SUBPROTOCOL : bearer
  const refusedBy = offered.includes(REFUSED_SUBPROTOCOL) ? REFUSED_SUBPROTOCOL : subprotocol
  return { key, token, subprotocol, refusedBy }
}

/** What RFC 6455 has the other side make of the key. */
export const acceptOf = (key: string): string =>
  createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64")

export const accept = (socket: Duplex, { key, subprotocol }: Handshake): void => {
  socket.write(
    [
      "HTTP/1.1 101 Switching Protocols",
      "Upgrade: websocket",
      "Connection: Upgrade",
      `Sec-WebSocket-Accept: ${acceptOf(key)}`,
      ...(subprotocol === undefined ? [] : [`Sec-WebSocket-Protocol: ${subprotocol}`]),
      "\r\n",
    ].join("\r\n"),
  )
}

/** As an answer of HTTP; to those who could not see that, as a frame. */
export const refuse = (
  socket: Duplex,
  error: { readonly status: number; readonly said: SocketRefusal["error"] },
  handshake: Handshake | undefined,
): void => {
  if (handshake?.refusedBy !== undefined) {
    accept(socket, { ...handshake, subprotocol: handshake.refusedBy })
    const refusal: SocketRefusal = { type: "refused", error: error.said }
    socket.end(Buffer.concat([textFrame(JSON.stringify(refusal)), CLOSE_FRAME]))
    return
  }
  const body = JSON.stringify(error.said)
  socket.end(
    [
      `HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? "Error"}`,
      "Content-Type: application/json; charset=utf-8",
      `Content-Length: ${Buffer.byteLength(body)}`,
      "Connection: close",
      "",
      body,
    ].join("\r\n"),
  )
}

/** 1011: the server cannot fulfil the request. */
const CLOSE_FRAME = Buffer.from([0x88, 2, 1011 >> 8, 1011 & 0xff])

const textFrame = (text: string): Buffer => {
  const payload = Buffer.from(text)
  const { length } = payload
  return Buffer.concat([Buffer.from([0x81]), sizeOf(length), payload])
}

/** As RFC 6455 writes it: in one byte, or in the two or eight that follow it. */
const sizeOf = (length: number): Buffer => {
  if (length < 126) return Buffer.of(length)
  const size = Buffer.alloc(length < 65_536 ? 3 : 9)
  if (size.length === 3) size.writeUInt16BE(length, 1)
  else size.writeBigUInt64BE(BigInt(length), 1)
  size[0] = size.length === 3 ? 126 : 127
  return size
}
