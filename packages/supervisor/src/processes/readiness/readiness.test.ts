import { once } from "node:events"
import { mkdir, mkdtemp, rm } from "node:fs/promises"
import { createServer as createHttpServer } from "node:http"
import { type AddressInfo, createServer, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, describe, expect, it, vi } from "vitest"
import { ManualClock } from "../testing/manual-clock.ts"
import { until } from "../testing/until.ts"
import { ATTEMPT_LIMIT_MS, POLL_INTERVAL_MS, untilOneSucceeds } from "./attempts.ts"
import { readyOnHttp } from "./http.ts"
import { readyOnLine } from "./line.ts"
import { readyOnPort } from "./port.ts"
import type { Readiness, ReadinessTarget } from "./readiness.ts"
import { readyOnceUp, STAYS_UP_MS } from "./started.ts"
import { readyOnUnixSocket } from "./unix-socket.ts"

const never = new AbortController().signal
const silent: ReadinessTarget = { pid: 1, listen: () => () => {} }

const cleanUps: (() => unknown)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0)) await cleanUp()
})

const listening = async <S extends Server>(server: S, where: number | string): Promise<S> => {
  const sockets = new Set<Socket>()
  server.on("connection", (socket: Socket) => sockets.add(socket))
  server.listen(typeof where === "number" ? { port: where, host: "127.0.0.1" } : { path: where })
  await once(server, "listening")
  cleanUps.push(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return server
}

const portOf = (server: Server) => (server.address() as AddressInfo).port

const connectionsOf = (server: Server): Promise<number> =>
  new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  )

/** A port that nothing listens on now. */
const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const port = portOf(server)
  server.close()
  await once(server, "close")
  return port
}

/** A process whose output the test plays. */
const talking = () => {
  const listeners = new Set<(chunk: Buffer) => void>()
  const target: ReadinessTarget = {
    pid: 1,
    listen: (listen) => {
      listeners.add(listen)
      return () => listeners.delete(listen)
    },
  }
  const say = (words: string) => {
    for (const listen of listeners) listen(Buffer.from(words))
  }
  return { target, say, listeners }
}

const outcome = async (promise: Promise<void>): Promise<"ready" | "pending"> =>
  Promise.race([
    promise.then(() => "ready" as const),
    new Promise<"pending">((resolve) => setImmediate(() => resolve("pending"))),
  ])

describe("every strategy", () => {
  const strategies: [string, () => Promise<Readiness>][] = [
    ["line", async () => readyOnLine(/x/)],
    ["port", async () => readyOnPort(await freePort())],
    ["http", async () => readyOnHttp({ port: await freePort() })],
    ["unix socket", async () => readyOnUnixSocket("/nonexistent/berth.sock")],
  ]

  it.each(strategies)("%s: rejects with the reason when it is cancelled", async (_, make) => {
    const readiness = await make()
    const cancel = new AbortController()
    const waiting = readiness.wait(silent, cancel.signal)
    cancel.abort("enough")
    await expect(waiting).rejects.toBe("enough")
    await expect(readiness.wait(silent, AbortSignal.abort("before"))).rejects.toBe("before")
  })
})

describe("readyOnLine", () => {
  it("[R2.10] notices the line in the moment it is written, also in two pieces", async () => {
    const { target, say, listeners } = talking()
    const waiting = readyOnLine(/^listening on \d+$/).wait(target, never)
    say("starting\nnot listening on 1 yet\nlisten")
    expect(await outcome(waiting)).toBe("pending")
    say("ing on 4096")
    expect(await outcome(waiting)).toBe("ready")
    expect(listeners.size).toBe(0)
  })

  it("finds its line after a line of ten megabytes", async () => {
    const { target, say } = talking()
    const waiting = readyOnLine(/ready/).wait(target, never)
    for (let n = 0; n < 1000; n++) say("x".repeat(10_000))
    expect(await outcome(waiting)).toBe("pending")
    say("\nready\n")
    expect(await outcome(waiting)).toBe("ready")
  })
})

describe("polling", () => {
  it("[R2.10] has an interval of at most 100 ms, and a limit of at most 150 ms for an attempt", () => {
    expect(POLL_INTERVAL_MS).toBeLessThanOrEqual(100)
    expect(ATTEMPT_LIMIT_MS).toBeLessThanOrEqual(150)
  })

  it("[R2.10] begins further attempts while earlier ones hang, and ends all of them with the first success", async () => {
    const signals: AbortSignal[] = []
    await untilOneSucceeds((signal) => {
      signals.push(signal)
      return signals.length < 3 ? new Promise(() => {}) : Promise.resolve(true)
    }, never)
    expect(signals).toHaveLength(3)
    expect(signals.slice(0, 2).every(({ aborted }) => aborted)).toBe(true)
  })

  it("goes on after a rejected attempt", async () => {
    let attempts = 0
    await untilOneSucceeds(async () => {
      if (++attempts < 3) throw new Error("refused")
      return true
    }, never)
    expect(attempts).toBe(3)
  })
})

describe("readyOnPort", () => {
  it("waits until the port accepts connections", async () => {
    const port = await freePort()
    const waiting = readyOnPort(port).wait(silent, never)
    expect(await outcome(waiting)).toBe("pending")
    await listening(createServer(), port)
    await waiting
  })
})

describe("readyOnHttp", () => {
  it("[R2.10] waits while a server accepts and does not answer, and notices its first answer", async () => {
    let isUp = false
    const seen: (string | undefined)[] = []
    const server = await listening(
      createHttpServer((request, response) => {
        seen.push(request.headers.authorization)
        if (isUp) response.end("ok")
        else if (seen.length === 3) isUp = true
      }),
      0,
    )
    const headers = { authorization: "Basic x" }
    await readyOnHttp({ port: portOf(server), path: "/health", headers }).wait(silent, never)
    expect(seen.length).toBeGreaterThanOrEqual(4)
    await until(() => connectionsOf(server).then((open) => open === 0))
    expect(new Set(seen)).toEqual(new Set(["Basic x"]))
  })

  it("waits for a wanted status", async () => {
    const statuses = [503, 500, 302, 204]
    const server = await listening(
      createHttpServer((_, response) => {
        response.statusCode = statuses.shift() ?? 204
        response.end()
      }),
      0,
    )
    await readyOnHttp({ port: portOf(server) }).wait(silent, never)
    expect(statuses).toEqual([])
    const isReady = (status: number) => status === 204
    await readyOnHttp({ port: portOf(server), isReady }).wait(silent, never)
  })
})

describe("readyOnUnixSocket", () => {
  it("[R2.10] notices a socket by its directory's events, without any polling", async () => {
    vi.useFakeTimers({ toFake: ["setInterval"] })
    cleanUps.push(() => vi.useRealTimers())
    const directory = await mkdtemp(join(tmpdir(), "berth-ready-"))
    cleanUps.push(() => rm(directory, { recursive: true, force: true }))
    const path = join(directory, "agent.sock")
    const waiting = readyOnUnixSocket(path).wait(silent, never)
    expect(await outcome(waiting)).toBe("pending")
    await listening(createServer(), path)
    await waiting
  })
})

describe("readyOnUnixSocket without events", () => {
  it("notices a socket in a directory that did not exist when the wait began", async () => {
    const directory = await mkdtemp(join(tmpdir(), "berth-ready-"))
    cleanUps.push(() => rm(directory, { recursive: true, force: true }))
    const path = join(directory, "later", "agent.sock")
    const waiting = readyOnUnixSocket(path).wait(silent, never)
    await mkdir(join(directory, "later"))
    await listening(createServer(), path)
    await waiting
  })
})

describe("readyOnceUp", () => {
  it("waits until the process has stayed up for a moment, and ends when it is cancelled", async () => {
    const clock = new ManualClock()
    const waiting = readyOnceUp(clock).wait(silent, never)
    await clock.advance(STAYS_UP_MS - 1)
    expect(await outcome(waiting)).toBe("pending")
    await clock.advance(1)
    await waiting
    await readyOnceUp(clock).wait(silent, AbortSignal.abort())
  })
})
