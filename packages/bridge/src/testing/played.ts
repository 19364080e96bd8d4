import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { newId } from "@berth/protocol/ids"
import { onTestFinished } from "vitest"
import { type WebSocket, WebSocketServer } from "ws"
import { eventOf, helloOf } from "./attacks.ts"

type Message = Record<string, unknown> & { readonly type: string }

/** A supervisor whose every message the test sends. It holds `last` events and sends those that are missing. */
export const playSupervisor = async () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-played-"))
  const path = join(directory, "socket")
  const sandbox = newId.sandbox()
  const received: Message[] = []
  const wakes: (() => void)[] = []
  const wake = () => {
    for (const resolve of wakes.splice(0)) resolve()
  }
  const played = { first: 1, last: 0 }
  let current: WebSocket | undefined
  const server = createServer()
  const send = (message: unknown) => current?.send(JSON.stringify(message))
  const sendEvents = (first: number) => {
    const numbers = Array.from({ length: played.last - first + 1 }, (_, place) => first + place)
    if (numbers.length > 0)
      send({ type: "events", events: numbers.map((number) => eventOf(number)) })
  }
  new WebSocketServer({ server }).on("connection", (websocket) => {
    current = websocket
    websocket.on("message", (data) => {
      const message: Message = JSON.parse(String(data))
      received.push(message)
      if (message.type === "hello") {
        send(helloOf(sandbox, { ...played }))
        sendEvents(Math.max(played.first, Number(message.lastSeen) + 1))
      }
      wake()
    })
    websocket.on("close", wake)
  })
  server.listen(path)
  await once(server, "listening")
  onTestFinished(() => {
    for (const client of [current]) client?.terminate()
    server.close()
    server.closeAllConnections()
    rmSync(directory, { recursive: true, force: true })
  })
  const until = async (isSo: () => unknown) => {
    while (!isSo()) await new Promise<void>((resolve) => wakes.push(resolve))
  }
  return {
    address: { path },
    sandbox,
    received,
    send,
    until,
    hellos: () => received.filter(({ type }) => type === "hello"),
    acknowledged: () =>
      received.flatMap(({ type, upTo }) => (type === "acknowledge" ? [upTo] : [])),
    /** Adds so many events, and sends them. */
    happen: (count: number) => {
      const first = played.last + 1
      played.last += count
      sendEvents(first)
    },
    /** Makes the supervisor hold the events from `first` to `last` alone. */
    hold: (first: number, last: number) => Object.assign(played, { first, last }),
    drop: () => current?.terminate(),
    close: (code: number, reason: string) => current?.close(code, reason),
  }
}
