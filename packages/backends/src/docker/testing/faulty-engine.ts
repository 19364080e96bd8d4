import { once } from "node:events"
import { mkdtemp, rm } from "node:fs/promises"
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http"
import type { Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"

/**
 * The faults of the connection to an engine, in order: no answer, a hang-up before the engine has acted, one after it
 * has, an error, bytes that are no HTTP, a body that is no JSON, half a body, a body that comes byte by byte.
 */
export const FAULTS = [
  "hang",
  "reset",
  "lost",
  "500",
  "no-http",
  "no-json",
  "half",
  "slow",
] as const
/** 404 and 409 are no fault for every request: most take a 404 for an answer. */
export type Fault = (typeof FAULTS)[number] | "404" | "409"

export interface FaultyEngine {
  readonly address: { readonly socketPath: string }
  /** Every request so far: `GET /v1.41/…`. */
  readonly asked: readonly string[]
  /**
   * From now on, matching requests fail with this fault, or only the next `times`. Without a fault, everything passes.
   */
  fail(matching: RegExp, fault: Fault | undefined, times?: number): void
  /** Hangs up all connections. */
  cut(): void
  close(): Promise<void>
}

export const ERROR_WORDS = "the engine's own words"
const SLOW_BYTE_MS = 50

/** Starts a proxy that passes every request on to the real engine, except those that it is told to spoil. */
export const startFaultyEngine = async (engineSocket: string): Promise<FaultyEngine> => {
  const directory = await mkdtemp(join(tmpdir(), "berth-faulty-"))
  const socketPath = join(directory, "engine.sock")
  const open = new Set<Socket>()
  let spoil: { readonly matching: RegExp; readonly fault: Fault | undefined; times: number } = {
    matching: /./,
    fault: undefined,
    times: Infinity,
  }

  const all: string[] = []

  const server = createServer((asked, answer) => {
    const { matching, fault, times } = spoil
    const line = `${asked.method} ${asked.url}`
    all.push(line)
    const hit = times > 0 && matching.test(line)
    if (hit) spoil.times -= 1
    if (!hit || fault === undefined) pass(engineSocket, asked, answer)
    else if (fault === "lost") pass(engineSocket, asked, answer, () => asked.socket.destroy())
    else spoilWith(fault, asked, answer)
  })
  server.on("connection", (socket) => {
    open.add(socket)
    socket.on("error", () => {})
    socket.once("close", () => open.delete(socket))
  })
  server.listen(socketPath)
  await once(server, "listening")

  const cut = () => {
    for (const socket of open) socket.destroy()
  }
  return {
    address: { socketPath },
    asked: all,
    fail: (matching, fault, times = Infinity) => {
      spoil = { matching, fault, times }
    },
    cut,
    async close() {
      cut()
      server.close()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

const pass = (
  socketPath: string,
  asked: IncomingMessage,
  answer: ServerResponse,
  instead?: () => void,
) => {
  const { method, url, headers } = asked
  const onward = request({ socketPath, method, path: url, headers }, (reply) => {
    if (instead !== undefined) {
      reply.resume().on("end", instead)
      return
    }
    answer.writeHead(reply.statusCode ?? 502, reply.headers)
    answer.flushHeaders()
    reply.pipe(answer)
    reply.once("close", () => reply.complete || asked.socket.destroy())
  })
  onward.on("error", () => asked.socket.destroy())
  answer.on("close", () => onward.destroy())
  // The body is sent in one piece: an engine that refuses early closes while the rest is still on its way.
  const body: Buffer[] = []
  asked.on("data", (chunk: Buffer) => body.push(chunk))
  asked.on("end", () => onward.end(Buffer.concat(body)))
}

const spoilWith = (
  fault: Exclude<Fault, "lost">,
  { socket }: IncomingMessage,
  answer: ServerResponse,
) => {
  switch (fault) {
    case "hang":
      return
    case "reset":
      socket.destroy()
      return
    case "404":
    case "409":
    case "500":
      answer.writeHead(Number(fault), { "Content-Type": "application/json" })
      answer.end(JSON.stringify({ message: ERROR_WORDS }))
      return
    case "no-http":
      socket.end("\0\u0001 this is no HTTP at all\r\n\r\n")
      return
    case "no-json":
      answer.writeHead(200).end("<html>surprise</html>")
      return
    case "half":
      answer.writeHead(200, { "Content-Length": 1_000 })
      answer.write('{"Id":"', () => socket.destroy())
      return
    case "slow": {
      answer.writeHead(200, { "Content-Length": 1_000_000 })
      const drip = setInterval(() => answer.write("["), SLOW_BYTE_MS)
      answer.on("close", () => clearInterval(drip))
    }
  }
}
