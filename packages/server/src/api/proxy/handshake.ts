import { createHash } from "node:crypto"
import type { IncomingMessage } from "node:http"
import type { Duplex } from "node:stream"
import { BerthError } from "@berth/protocol/errors"
import type { SandboxId } from "@berth/protocol/ids"
import {
  BEARER_SUBPROTOCOL,
  REFUSED_SUBPROTOCOL,
  SANDBOX_HEADER,
  type SocketRefusal,
  SUBPROTOCOL,
} from "@berth/protocol/sandboxes"
import { bearerOf } from "../authorize.ts"
import { bareAnswer } from "../bare-answer.ts"
import { OPCODE, writeClose, writeFrame } from "./frame-header.ts"

/** A client's request for a WebSocket. */
export interface Handshake {
  readonly key: string
  readonly token: string | undefined
  /** The answer to the offered subprotocols. Browsers offer some, other clients none. */
  readonly subprotocol: string | undefined
  /** The subprotocol with which the client is refused. */
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

/** The accept value that RFC 6455 derives from the key. */
export const acceptOf = (key: string): string =>
  createHash("sha1").update(`${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest("base64")

export const accept = (
  socket: Duplex,
  { key, subprotocol }: Handshake,
  /** The sandbox that answers. */
  sandbox?: SandboxId,
): void => {
  socket.write(
    [
      "HTTP/1.1 101 Switching Protocols",
      "Upgrade: websocket",
      "Connection: Upgrade",
      `Sec-WebSocket-Accept: ${acceptOf(key)}`,
      ...(subprotocol === undefined ? [] : [`Sec-WebSocket-Protocol: ${subprotocol}`]),
      ...(sandbox === undefined ? [] : [`${SANDBOX_HEADER}: ${sandbox}`]),
      "\r\n",
    ].join("\r\n"),
  )
}

/** Refuses by an HTTP response, or by a frame to clients that could not see the response. */
export const refuse = (
  socket: Duplex,
  error: { readonly status: number; readonly said: SocketRefusal["error"] },
  handshake: Handshake | undefined,
): void => {
  if (handshake?.refusedBy !== undefined) {
    accept(socket, { ...handshake, subprotocol: handshake.refusedBy })
    socket.end(refusalFrames(error.said))
    return
  }
  socket.end(bareAnswer(error.status, error.said))
}

/** The frames that tell a connected client why its connection ends, and close it. */
export const refusalFrames = (error: SocketRefusal["error"]): Buffer => {
  const refusal: SocketRefusal = { type: "refused", error }
  const text = writeFrame(OPCODE.text, Buffer.from(JSON.stringify(refusal)))
  return Buffer.concat([text, writeClose(CANNOT_FULFIL)])
}

/** The close code of a server that cannot do what it was asked for. */
const CANNOT_FULFIL = 1011
