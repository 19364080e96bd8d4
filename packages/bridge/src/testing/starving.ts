/**
 * A process of supervisors that cost the server as much as they can, on every connection, without end: `node
 * starving.ts SOCKET SANDBOX ATTACK …`, three arguments for each. It replaces the socket that is there, prints "ready",
 * and then the name of each attack that has begun.
 */
import { chmodSync, openSync, rmSync } from "node:fs"
import { createServer, type Socket } from "node:net"
import { basename, dirname } from "node:path"
import { MAX_MESSAGE_EVENTS } from "@berth/protocol/bridge-limits"
import { type Attack, eventOf } from "./attacks.ts"
import { acceptance, frame } from "./frames.ts"
import type { StarvingAttack } from "./starving-attacks.ts"

const MIB = 1024 * 1024

/** A message of the largest size, without one valid event in it. */
const EMPTY = frame(`{"type":"events","events":[${"{},".repeat(MIB / 3 - 16)}{}]}`)

const HINT = "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"

const attacks: Record<StarvingAttack, Attack> = {
  /** Sends good messages, and then one of empty events, which ends the connection. */
  empty: (socket, sandbox) =>
    greet(socket, sandbox, (next) => {
      for (let count = 0; count < 8; count++) socket.write(eventsFrom(next + count, 1))
      socket.write(EMPTY)
    }),
  /** Sends good messages with the most events allowed, as fast as they are read. */
  crowded: (socket, sandbox) =>
    greet(socket, sandbox, (first) => {
      let next = first
      repeat(socket, () => {
        const message = eventsFrom(next, MAX_MESSAGE_EVENTS)
        next += MAX_MESSAGE_EVENTS
        return message
      })
    }),
  /** Sends interim responses without end to any request. */
  hints: (socket) => void socket.once("data", () => repeat(socket, () => HINT.repeat(1_000))),
}

const eventsFrom = (first: number, count: number): Buffer => {
  const events = Array.from({ length: count }, (_, place) => eventOf(first + place))
  return frame(JSON.stringify({ type: "events", events }))
}

/** Opens the connection and says hello; then calls `act` with the number of the next event. */
const greet = async (socket: Socket, sandbox: string, act: (next: number) => void) => {
  socket.write(await acceptance(socket))
  socket.once("data", (data) => {
    const lastSeen = Number(/"lastSeen":(\d+)/.exec(unmasked(data))?.[1] ?? 0)
    const hello = { type: "hello", generation: 1, sandbox, first: lastSeen + 1, last: lastSeen }
    socket.write(frame(JSON.stringify(hello)))
    act(lastSeen + 1)
    // Acknowledgements are read and dropped.
    socket.resume()
  })
}

/** The text of a client's short frame, which is masked. */
const unmasked = (data: Buffer): string => {
  const start = (data[1] ?? 0) - 0x80 === 126 ? 4 : 2
  const mask = data.subarray(start, start + 4)
  const text = Buffer.from(data.subarray(start + 4))
  for (const [place, byte] of text.entries()) text[place] = byte ^ (mask[place % 4] ?? 0)
  return text.toString("latin1")
}

/** Writes as fast as the other side reads. */
const repeat = (socket: Socket, next: () => string | Buffer): void => {
  const write = () => {
    while (!socket.destroyed && socket.write(next()));
  }
  socket.on("drain", write)
  write()
}

const given = process.argv.slice(2)
for (let place = 0; place < given.length; place += 3) {
  const [path = "", sandbox = "", attack = ""] = given.slice(place, place + 3)
  rmSync(path, { force: true })
  const server = createServer((socket) => {
    socket.on("error", () => {})
    console.log(attack)
    void attacks[attack as StarvingAttack](socket, sandbox)
  })
  // By the directory's descriptor: the address of a socket has room for 107 bytes, and a path may have more.
  const address = `/proc/self/fd/${openSync(dirname(path), "r")}/${basename(path)}`
  await new Promise<void>((resolve) => server.listen(address, resolve))
  chmodSync(path, 0o777)
}
console.log("ready")
