import { once } from "node:events"
import { createServer, type Socket } from "node:net"
import { ERRORS } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { describe, expect, it } from "vitest"
import type { WebSocket } from "ws"
import { acceptOf } from "./handshake.ts"
import { start } from "./testing/played-sandbox.ts"

const COMMAND = `cmd-${newId.sandbox().slice(3)}`
const TEXT = 0x81
const BINARY = 0x82
const CLOSE = 0x88
const PING = 0x89

/** A frame of RFC 6455 with the given first byte. A given length stands in its header instead of the true one. */
const frame = (first: number, payload: string | Buffer | object, length?: number): Buffer => {
  const isPlain = typeof payload === "string" || Buffer.isBuffer(payload)
  const body = Buffer.from(isPlain ? (payload as string) : JSON.stringify(payload))
  const size = length ?? body.length
  const head = Buffer.alloc(size < 126 ? 2 : size < 65_536 ? 4 : 10)
  head[0] = first
  head[1] = size < 126 ? size : size < 65_536 ? 126 : 127
  if (head.length === 4) head.writeUInt16BE(size, 2)
  if (head.length === 10) head.writeBigUInt64BE(BigInt(size), 2)
  return Buffer.concat([head, body])
}

const STARTED = frame(TEXT, { type: "started", id: COMMAND, pid: 1 })
const EXIT = { type: "exit", status: 0, signal: null, timedOut: false, durationMs: 1, left: [] }
const ATTACHED = frame(TEXT, { type: "attached", from: 0, missed: 0, cols: 80, rows: 24 })
const READY = frame(TEXT, { type: "ready", directories: 1 })
const PORTS = frame(TEXT, { type: "ports", ports: [], isCut: false })
const NORMAL = frame(CLOSE, Buffer.of(1000 >> 8, 1000 & 0xff))
const stdout = (text: string) => frame(BINARY, Buffer.concat([Buffer.of(1), Buffer.from(text)]))
const changes = (...paths: unknown[]) =>
  frame(TEXT, { type: "changes", changes: paths.map((path) => ({ path, change: "changed" })) })

const RUN = "/commands/run"
const ATTACH = `/commands/${COMMAND}/attach`
const TERMINAL = "/terminals/term-0123456789abcdefghjk/attach"
const WATCH = "/files/watch?path=."
const PORT = "/ports/80/connect"

/** Starts a server before a sandbox that accepts the WebSocket and then sends the bytes that `say` writes. */
const playing = (say: (sandbox: Socket) => void) =>
  start(
    createServer((sandbox) =>
      sandbox.once("data", (request) => {
        const key = /sec-websocket-key: (\S+)/i.exec(request.toString())?.[1] ?? ""
        const accepted = ["101 S", "Upgrade: websocket", "Connection: Upgrade"].join("\r\n")
        sandbox.write(`HTTP/1.1 ${accepted}\r\nSec-WebSocket-Accept: ${acceptOf(key)}\r\n\r\n`)
        say(sandbox)
      }),
    ),
  )

/** Collects every message that a client receives, up to the close. */
const hear = async (client: WebSocket) => {
  const texts: { type: string; error?: { code: string } }[] = []
  const bytes: Buffer[] = []
  client.on("message", (data: Buffer, isBinary) => {
    if (isBinary) bytes.push(data)
    else texts.push(JSON.parse(String(data)))
  })
  let broken: Error | undefined
  client.on("error", (error) => {
    broken = error
  })
  const [code, reason] = await once(client, "close")
  return { texts, bytes: Buffer.concat(bytes), code, reason: String(reason), broken }
}

const heardFrom = async (path: string, ...frames: readonly Buffer[]) => {
  const { socket } = await playing((sandbox) => sandbox.write(Buffer.concat(frames)))
  return await hear(socket(path))
}

describe("a WebSocket to a hostile sandbox", () => {
  it.each<[string, string, Buffer[]]>([
    ["a compressed frame", RUN, [STARTED, frame(0xc1, EXIT)]],
    ["a frame of an unknown kind", RUN, [STARTED, frame(0x83, "x")]],
    ["a message in fragments", RUN, [STARTED, frame(0x01, '{"type":'), frame(0x80, '"exit"}')]],
    ["a masked frame", RUN, [STARTED, Buffer.from([TEXT, 0x81, 1, 2, 3, 4, 0x41])]],
    [
      "a length in a longer form than it needs",
      RUN,
      [STARTED, Buffer.from([BINARY, 126, 0, 1, 1])],
    ],
    ["a ping longer than 125 bytes", RUN, [STARTED, frame(PING, "x".repeat(126))]],
    ["a close without a code", RUN, [STARTED, frame(CLOSE, "x")]],
    ["a close code that no endpoint may send", RUN, [STARTED, frame(CLOSE, Buffer.of(3, 238))]],
    ["a text that is no JSON", RUN, [frame(TEXT, "started")]],
    [
      "a text that is no UTF-8",
      RUN,
      [STARTED, frame(TEXT, Buffer.from('{"type":"\xff"}', "latin1"))],
    ],
    [
      "the server's own message `refused`",
      RUN,
      [frame(TEXT, { type: "refused", error: { code: "x", message: "y" } })],
    ],
    ["output before `started`", RUN, [stdout("early")]],
    ["`started` twice", RUN, [STARTED, STARTED]],
    ["output on an unknown channel", RUN, [STARTED, frame(BINARY, Buffer.of(3, 65))]],
    ["output on no channel", RUN, [STARTED, frame(BINARY, "")]],
    ["an exit status above 255", RUN, [STARTED, frame(TEXT, { ...EXIT, status: 256 })]],
    ["an exit status below 0", RUN, [STARTED, frame(TEXT, { ...EXIT, status: -1 })]],
    [
      "an exit by an unknown signal",
      RUN,
      [STARTED, frame(TEXT, { ...EXIT, status: null, signal: "\u001b[2J" })],
    ],
    ["an exit without status and signal", RUN, [STARTED, frame(TEXT, { ...EXIT, status: null })]],
    ["`exit` twice", RUN, [STARTED, frame(TEXT, EXIT), frame(TEXT, EXIT)]],
    ["output after `exit`", RUN, [STARTED, frame(TEXT, EXIT), stdout("late")]],
    ["`attached` for a command that it runs", RUN, [frame(TEXT, { type: "attached" })]],
    [
      "an error code of the server",
      RUN,
      [frame(TEXT, { type: "error", error: { code: "auth.required", message: "m", details: {} } })],
    ],
    [
      "an attached command of the wrong form",
      ATTACH,
      [frame(TEXT, { type: "attached", command: { id: COMMAND } })],
    ],
    ["terminal output before `attached`", TERMINAL, [frame(BINARY, "x")]],
    [
      "a terminal of 1e9 columns",
      TERMINAL,
      [ATTACHED, frame(TEXT, { type: "resized", cols: 1e9, rows: 1 })],
    ],
    [
      "terminal output after `exit`",
      TERMINAL,
      [ATTACHED, frame(TEXT, { type: "exit", status: 0, signal: null }), frame(BINARY, "x")],
    ],
    ["changes of files before `ready`", WATCH, [changes("a")]],
    ["a change above the watched folder", WATCH, [READY, changes("../a")]],
    ["a change at an absolute path", WATCH, [READY, changes("a", "/etc/passwd")]],
    [
      "a change at a path whose bytes lead out of the folder",
      WATCH,
      [READY, changes({ base64: "Li4=" })],
    ],
    ["changes of files in a binary frame", WATCH, [READY, frame(BINARY, "x")]],
    ["a port above 65,535", "/ports/watch", [PORTS, frame(TEXT, { type: "closed", port: 70_000 })]],
    [
      "a closed port before the list of ports",
      "/ports/watch",
      [frame(TEXT, { type: "closed", port: 1 })],
    ],
    ["an unknown message of a port", PORT, [frame(BINARY, "x"), frame(TEXT, { type: "else" })]],
    ["bytes of a port after their end", PORT, [frame(TEXT, { type: "end" }), frame(BINARY, "x")]],
  ])("ends with bridge.protocol_violated when the sandbox sends %s", async (_, path, said) => {
    const { texts, code, broken } = await heardFrom(path, ...said, stdout("and goes on"))
    expect(broken).toBeUndefined()
    expect(texts.at(-1)).toMatchObject({
      type: "refused",
      error: { code: "bridge.protocol_violated" },
    })
    expect(texts.filter(({ type }) => type === "refused")).toHaveLength(1)
    expect(code).toBe(1011)
  })

  it.each<[string, string, Buffer[]]>([
    ["a message of 5 MiB", RUN, [STARTED, frame(TEXT, "", 5 * 1024 * 1024)]],
    ["a binary frame of 2 MiB", RUN, [STARTED, frame(BINARY, Buffer.of(1), 2 * 1024 * 1024)]],
    [
      "a binary frame of almost 2^64 bytes",
      RUN,
      [STARTED, Buffer.from([BINARY, 127, 255, 255, 255, 255, 0, 0, 0, 0])],
    ],
    ["100 levels of JSON", RUN, [STARTED, frame(TEXT, "[".repeat(100))]],
    ["600,000 values", WATCH, [READY, frame(TEXT, `[${"0,".repeat(600_000)}0]`)]],
    ["a terminal's message of 70,000 bytes", TERMINAL, [ATTACHED, frame(TEXT, " ".repeat(70_000))]],
  ])("ends with bridge.limit_exceeded when the sandbox sends %s", async (_, path, said) => {
    expect((await heardFrom(path, ...said)).texts.at(-1)).toMatchObject({
      type: "refused",
      error: { code: "bridge.limit_exceeded" },
    })
  })

  it("passes on output, an error with the table's hint, a ping and the close, also byte by byte", async () => {
    const output = Buffer.alloc(65_537, "x").fill(1, 0, 1)
    const error = {
      code: "process.not_found",
      message: "m\u001b",
      details: { a: 1 },
      hint: "\u001b",
    }
    const last = frame(TEXT, { type: "error", error, more: "x" })
    const said = Buffer.concat([
      ...[STARTED, frame(BINARY, output), frame(PING, "p"), frame(BINARY, Buffer.of(2, 0xff))],
      ...[last, frame(CLOSE, Buffer.of(4000 >> 8, 4000 & 0xff))],
    ])
    for (const pieceBytes of [said.length, 4_093, 1]) {
      const { socket } = await playing((sandbox) => {
        const more = (from: number) => {
          if (from >= said.length) return
          sandbox.write(said.subarray(from, from + pieceBytes), () => more(from + pieceBytes))
        }
        more(0)
      })
      const client = socket(RUN)
      const pings: string[] = []
      client.on("ping", (data) => pings.push(String(data)))
      const { texts, bytes, code } = await hear(client)
      expect(bytes.equals(Buffer.concat([output, Buffer.of(2, 0xff)]))).toBe(true)
      expect(texts).toEqual([
        { type: "started", id: COMMAND, pid: 1 },
        {
          type: "error",
          error: expect.objectContaining({
            code: "process.not_found",
            details: { a: 1 },
            hint: ERRORS["process.not_found"].hint,
          }),
        },
      ])
      expect(texts[1]).not.toHaveProperty("more")
      expect([code, pings]).toEqual([4000, ["p"]])
    }
  })

  it("passes on nothing that the sandbox sends after its close", async () => {
    const { texts, code } = await heardFrom(RUN, STARTED, frame(TEXT, EXIT), NORMAL, stdout("late"))
    expect(texts.map(({ type }) => type)).toEqual(["started", "exit"])
    expect(code).toBe(1000)
  })

  it("breaks off with 1006 when the sandbox breaks off in the middle of a frame", async () => {
    const { socket } = await playing((sandbox) =>
      sandbox.end(Buffer.concat([STARTED, frame(BINARY, Buffer.of(1, 65), 100)])),
    )
    expect((await hear(socket(RUN))).code).toBe(1006)
  })

  it("slows a flood of messages down, and other requests take a median below 100 ms meanwhile", async () => {
    const ping = frame(TEXT, { type: "overflow" })
    const flood = Buffer.concat(Array.from({ length: 2_000 }, () => ping))
    let sent = 0
    const { socket, call } = await playing((sandbox) => {
      sandbox.write(READY)
      const more = () => {
        sent += 2_000
        if (sent < 400_000 && !sandbox.destroyed) sandbox.write(flood, more)
      }
      more()
    })
    const client = socket(WATCH)
    let heard = 0
    client.on("message", () => heard++)
    await expect.poll(() => heard, { timeout: 20_000 }).toBeGreaterThan(2_000)
    const times: number[] = []
    for (let turn = 0; turn < 20; turn++) {
      const before = performance.now()
      await call("/nowhere").then((reply) => reply.text())
      times.push(performance.now() - before)
    }
    expect(heard).toBeLessThan(100_000)
    expect(times.toSorted((a, b) => a - b)[10]).toBeLessThan(100)
    client.terminate()
  })

  it("closes after the last message without waiting for the sandbox to close", async () => {
    const { socket, open } = await playing((sandbox) =>
      sandbox.write(Buffer.concat([STARTED, frame(TEXT, EXIT)])),
    )
    const { texts, code } = await hear(socket(RUN))
    expect(texts.at(-1)).toMatchObject({ type: "exit", status: 0 })
    expect(code).toBe(1000)
    await expect.poll(() => open.size).toBe(0)
  })
})
