import type { Socket } from "node:net"
import { PORT_CLOSE } from "@berth/protocol/port-limits"
import type { WebSocket } from "ws"
import { problemIn } from "../checks/check.ts"
import { portControl } from "../checks/forms/ports.ts"
import type { Clock } from "../processes/clock.ts"

/** Limit of the bytes on their way to a slow client. Beyond it the program inside waits. */
const MAX_UNSENT_BYTES = 256 * 1024
/**
 * Interval of pings to a paused client. A client is not read while the program inside does not read, so its leaving
 * would not be noticed without writing to it.
 */
export const PING_MS = 15_000
/** Time for a program to read what a client sent before it closed. */
const LINGER_MS = 10_000
const NORMAL = 1000

/** Passes bytes both ways, each at the pace of its reader, until both sides have ended or one broke off. */
export const join = (websocket: WebSocket, socket: Socket, clock: Clock): void => {
  if (socket.destroyed) {
    websocket.close(PORT_CLOSE.reset, "it is broken off")
    return
  }
  toClient(websocket, socket)
  fromClient(websocket, socket)
  const stopPinging = keepPinging(websocket, clock)
  socket.once("close", (isBroken) => {
    if (isBroken) websocket.close(PORT_CLOSE.reset, "it is broken off")
    else websocket.close(NORMAL)
    // The client's closing frame would not be read otherwise.
    websocket.resume()
  })
  websocket.once("close", (code) => {
    stopPinging()
    if (code !== NORMAL) {
      socket.destroy()
      return
    }
    socket.resume()
    socket.end()
    const takeBack = clock.after(LINGER_MS, () => socket.destroy())
    socket.once("close", takeBack)
  })
}

const toClient = (websocket: WebSocket, socket: Socket): void => {
  const goOn = () => {
    if (websocket.bufferedAmount <= MAX_UNSENT_BYTES / 2) socket.resume()
  }
  socket.on("data", (chunk) => {
    if (websocket.readyState !== websocket.OPEN) return
    websocket.send(chunk, { binary: true }, goOn)
    if (websocket.bufferedAmount > MAX_UNSENT_BYTES) socket.pause()
  })
  socket.once("end", () => {
    if (websocket.readyState === websocket.OPEN) websocket.send('{"type":"end"}')
  })
}

const fromClient = (websocket: WebSocket, socket: Socket): void => {
  websocket.on("message", (data: Buffer, isBinary) => {
    if (!isBinary) {
      if (isEnd(data.toString("utf8"))) socket.end()
      else websocket.close(PORT_CLOSE.badMessage, "it sent what is no message")
    } else if (socket.writable && !socket.write(data)) websocket.pause()
  })
  socket.on("drain", () => websocket.resume())
}

const isEnd = (text: string): boolean => {
  try {
    return problemIn(portControl, JSON.parse(text), "message") === undefined
  } catch {
    return false
  }
}

const keepPinging = (websocket: WebSocket, clock: Clock): (() => void) => {
  const ping = () => {
    if (websocket.isPaused) websocket.ping()
    takeBack = clock.after(PING_MS, ping)
  }
  let takeBack = clock.after(PING_MS, ping)
  return () => takeBack()
}
