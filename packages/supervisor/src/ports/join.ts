import type { Socket } from "node:net"
import { PORT_CLOSE } from "@berth/protocol/port-limits"
import type { WebSocket } from "ws"
import type { Clock } from "../processes/clock.ts"

/** On its way to a client that reads slowly: beyond it the program inside waits. */
const MAX_UNSENT_BYTES = 256 * 1024
/**
 * A client is not read from while the program inside does not read, and so is not seen to leave: then it is
 * written to so often.
 */
export const PING_MS = 15_000
/** What a client sent before it closed still gets to a program that reads it within this time. */
const LINGER_MS = 10_000
const NORMAL = 1000

/** Passes bytes both ways, each at the pace of who reads them, until both ends have ended it or one broke it off. */
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
    // The client's close is an answer, and it would not be read.
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
    const value: unknown = JSON.parse(text)
    const isObject = typeof value === "object" && value !== null
    return (
      isObject && Object.keys(value).join() === "type" && "type" in value && value.type === "end"
    )
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
