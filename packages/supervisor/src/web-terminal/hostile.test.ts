import { once } from "node:events"
import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { until } from "../processes/testing/until.ts"
import { MAX_CONNECTIONS, webTerminal } from "./serve.ts"
import { type Program, startProgram } from "./testing/program.ts"
import {
  BINARY,
  frame,
  PING,
  pour,
  rawConnection,
  rawViewer,
  readToEnd,
  upgradeOf,
} from "./testing/raw-viewer.ts"
import { Viewer } from "./testing/viewer.ts"

const MIB = 1024 * 1024
/** Covers garbage that is not collected yet. */
const MAX_GROWTH_BYTES = 40 * MIB
/** The page's real program has some 300 KiB. */
const SCRIPT = "x".repeat(300 * 1024)

let program: Program
let port: number
beforeAll(async () => {
  program = await startProgram(SCRIPT)
  port = program.port
})
afterAll(() => program.end())

const goesOn = async (viewer: Viewer) => {
  viewer.type("echo still $((40 + 2))\n")
  await viewer.see(/still 42\r/)
}

const openFiles = () => readdirSync(`/proc/${program.child.pid}/fd`).length

const times = (count: number, bytes: Buffer | string) =>
  Buffer.concat(Array.from({ length: count }, () => Buffer.from(bytes)))

describe("a hostile viewer", () => {
  it("that sends pings and reads no answer takes less than 40 MiB", async () => {
    const other = await Viewer.open(port)
    const viewer = await rawViewer(port)
    const pings = times(10_000, frame(PING, "x".repeat(125)))
    const before = program.residentBytes()
    for (let n = 0; n < 12; n++) await pour(viewer, pings)
    await pour(viewer, frame(BINARY, "touch flooded\n"))
    await until(() => existsSync(join(program.directory, "flooded")))
    expect(program.residentBytes() - before).toBeLessThan(MAX_GROWTH_BYTES)
    await goesOn(other)
    viewer.destroy()
    await other.close()
  }, 30_000)

  it("that types single bytes that no program reads takes less than 40 MiB", async () => {
    const viewer = await rawViewer(port)
    await pour(viewer, frame(BINARY, "stty raw -echo; touch ready; sleep 1000\n"))
    await until(() => existsSync(join(program.directory, "ready")))
    const before = program.residentBytes()
    const bytes = times(100_000, frame(BINARY, "x"))
    for (let n = 0; n < 8; n++) await pour(viewer, bytes)
    // An empty frame counts nothing, and must hold nothing.
    await pour(viewer, times(50_000, frame(BINARY, "")))
    const other = await Viewer.open(port)
    await goesOn(other)
    expect(program.residentBytes() - before).toBeLessThan(MAX_GROWTH_BYTES)
    viewer.destroy()
    await other.close()
  }, 30_000)

  it("that resizes without end holds up no other viewer, and an invalid size ends it", async () => {
    const other = await Viewer.open(port)
    const viewer = await Viewer.open(port)
    for (let n = 0; n < 3_000; n++) viewer.socket.send(`${(n % 900) + 1}x${(n % 500) + 1}`)
    viewer.socket.send("111x55")
    await goesOn(other)
    viewer.type("stty size\n")
    await viewer.see(/55 111\r/)
    await viewer.close()
    for (const size of ["-1x5", "1.5x5", "NaNxNaN", "1001x5", ""]) {
      const bad = await Viewer.open(port)
      bad.socket.send(size)
      expect((await once(bad.socket, "close"))[0], size).toBe(1003)
    }
    await goesOn(other)
    await other.close()
  }, 30_000)

  it("that sends too large a frame is cut off, and no other viewer is", async () => {
    const other = await Viewer.open(port)
    const viewer = await Viewer.open(port)
    viewer.socket.send(Buffer.alloc(MIB))
    expect((await once(viewer.socket, "close"))[0]).toBe(1009)
    // The head of a frame of 2^40 bytes, and one that is not masked.
    for (const head of [Buffer.of(0x82, 0xff, 0, 0, 1, 0, 0, 0, 0, 0), Buffer.of(0x82, 1, 0x78)]) {
      const raw = await rawViewer(port)
      raw.write(head)
      await readToEnd(raw)
      raw.destroy()
    }
    await goesOn(other)
    await other.close()
    await until(() => program.others().length === 0)
  }, 30_000)
})

describe("a connection that is no viewer", () => {
  it("is refused and let go, also when it keeps its half open", async () => {
    await until(() => program.others().length === 0)
    const before = openFiles()
    const refused = [
      upgradeOf(port, "/"),
      upgradeOf(port, "/terminal?a"),
      upgradeOf(port, "/terminal/../terminal"),
      upgradeOf(port, "http://127.0.0.1/terminal"),
      upgradeOf(port, "/terminal", "origin: null\r\n"),
      upgradeOf(port, "/terminal", "origin: http://127.0.0.1.example\r\n"),
      upgradeOf(port).replace("127.0.0.1", "rebound.example"),
      upgradeOf(port).replace("websocket\r\n", "h2c\r\n"),
      upgradeOf(port).replace("GET", "POST"),
      upgradeOf(port).replace("version: 13", "version: 12"),
      `CONNECT 127.0.0.1:${port} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n\r\n`,
    ]
    const held = await Promise.all(refused.map(() => rawConnection(port)))
    const answers = held.map((socket, place) => {
      const read = readToEnd(socket)
      socket.write(refused[place] as string)
      return read
    })
    for (const answer of await Promise.all(answers)) expect(answer).toMatch(/^(?:HTTP\/1.1 4|$)/)
    await until(() => openFiles() <= before)
    await until(() => program.others().length === 0)
    for (const socket of held) socket.destroy()
  }, 30_000)

  it("that asks for the page 5,000 times and reads nothing takes less than 40 MiB", async () => {
    const before = program.residentBytes()
    const socket = await rawConnection(port)
    const asked = `GET /xterm.js HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n\r\n`
    socket.write(times(5_000, asked))
    await until(async () => (await fetch(`http://127.0.0.1:${port}/`)).ok)
    const other = await Viewer.open(port)
    await goesOn(other)
    expect(program.residentBytes() - before).toBeLessThan(MAX_GROWTH_BYTES)
    socket.destroy()
    await other.close()
  }, 30_000)

  it("is one of a bounded number, and holds up no viewer", async () => {
    const other = await Viewer.open(port)
    const before = openFiles()
    const held = await Promise.all(
      Array.from({ length: MAX_CONNECTIONS + 100 }, () => rawConnection(port)),
    )
    await Promise.race(held.map((socket) => readToEnd(socket)))
    await goesOn(other)
    expect(openFiles() - before).toBeLessThan(MAX_CONNECTIONS + 50)
    for (const socket of held) socket.destroy()
    await until(
      async () => (await fetch(`http://127.0.0.1:${port}/`).catch(() => ({ ok: false }))).ok,
    )
    await other.close()
  }, 30_000)

  it("is ended when its request does not come in time", async () => {
    const shell = { command: "/bin/sh", cwd: "/", env: {} }
    const terminal = webTerminal({ assets: program.directory, shell, requestMs: 100 })
    await once(terminal.server.listen(0, "127.0.0.1"), "listening")
    const { port } = terminal.server.address() as { port: number }
    const starts = [
      "",
      "GET / HTTP/1.1\r\nhost: a\r\n",
      "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n",
    ]
    for (const start of starts) {
      const slow = await rawConnection(port)
      slow.write(start)
      await readToEnd(slow)
      slow.destroy()
    }
    await terminal.close()
  }, 30_000)

  it("does not keep the program from ending, nor start a shell meanwhile", async () => {
    const viewer = await Viewer.open(port)
    viewer.type("trap '' HUP; echo up $((40 + 2))\n")
    await viewer.see(/up 42\r/)
    const refused = await rawConnection(port)
    refused.write(upgradeOf(port, "/elsewhere"))
    await readToEnd(refused)
    const late = await rawConnection(port)
    const [first, rest] = [upgradeOf(port).slice(0, 40), upgradeOf(port).slice(40)]
    await pour(late, first)
    const idle = await rawConnection(port)
    const exited = once(program.child, "exit")
    program.child.kill("SIGTERM")
    await once(viewer.socket, "close")
    late.write(rest)
    expect((await exited)[0]).toBe(0)
    expect(program.family.running()).toEqual([])
    for (const socket of [refused, late, idle]) socket.destroy()
  }, 20_000)
})
