/**
 * A process full of hostile supervisors: `node hostile.ts DIRECTORY SANDBOX` serves each attack on a socket of its own.
 * The first connection is attacked; later ones are served properly, with three events. So are all connections to
 * `honest-1` and so on.
 */
import { createServer as createHttpServer } from "node:http"
import { createServer } from "node:net"
import { join } from "node:path"
import { WebSocketServer } from "ws"
import { ATTACKS, type Attack, eventOf, helloOf } from "./attacks.ts"
import { socketName } from "./socket-name.ts"

const [, , directory = "", sandbox = ""] = process.argv

const honest = createHttpServer((request, response) => {
  const body = request.url === "/health" ? { fine: true } : undefined
  response.writeHead(body ? 200 : 404).end(JSON.stringify(body))
})
new WebSocketServer({ server: honest }).on("connection", (websocket) => {
  websocket.once("message", (data) => {
    const { lastSeen } = JSON.parse(String(data))
    websocket.send(JSON.stringify(helloOf(sandbox, { last: 3 })))
    const events = [1, 2, 3].filter((number) => number > lastSeen).map((number) => eventOf(number))
    if (events.length > 0) websocket.send(JSON.stringify({ type: "events", events }))
    websocket.on("message", (text) => {
      const { type, prompt } = JSON.parse(String(text))
      if (type === "prompt.stop")
        websocket.send(
          JSON.stringify({ type: "prompt.standing", prompt, standing: { state: "unknown" } }),
        )
    })
  })
})

const HONEST: Readonly<Record<string, Attack>> = Object.fromEntries(
  Array.from({ length: 8 }, (_, place) => [
    `honest-${place}`,
    (socket) => void honest.emit("connection", socket),
  ]),
)

const listening = Object.entries({ ...ATTACKS, ...HONEST }).map(
  ([name, attack]: [string, Attack]) => {
    let connections = 0
    const server = createServer((socket) => {
      socket.on("error", () => {})
      if (connections++ > 0) return void honest.emit("connection", socket)
      // Unread bytes stay in the kernel, as with a supervisor that hangs.
      void attack(socket, sandbox)
    })
    return new Promise<void>((resolve) =>
      server.listen(join(directory, socketName(name)), () => resolve()),
    )
  },
)
await Promise.all(listening)
console.log("ready")
