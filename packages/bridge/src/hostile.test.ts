import { execFileSync, spawn } from "node:child_process"
import { once } from "node:events"
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { ErrorCode } from "@berth/protocol/errors"
import { newId } from "@berth/protocol/ids"
import { sized } from "@berth/testing/sampled"
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest"
import { z } from "zod"
import { getFromSandbox } from "./get.ts"
import type { AttackName } from "./testing/attacks.ts"
import { socketName } from "./testing/socket-name.ts"
import { firstFailure, TOKEN, watchBridge } from "./testing/watch.ts"

const HOSTILE = join(import.meta.dirname, "testing", "hostile.ts")
const DEADLINES = { openMs: 1_500, pingEveryMs: 100, pongMs: 500 }
/** The deadlines of attacks that last until a deadline ends them. */
const SHORT_DEADLINES = { openMs: 500, pingEveryMs: 100, pongMs: 300 }
/** The time that a busy machine may add to a deadline. */
const SLACK_MS = 5_000
const MIB = 1024 * 1024
const FLOODED_MS = sized("milliseconds of a flood of events", { few: 1_000, all: 3_000 })

const sandbox = newId.sandbox()
let directory: string
let stopAttacks: () => Promise<unknown>

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "berth-hostile-"))
  const child = spawn(process.execPath, ["--conditions=source", HOSTILE, directory, sandbox], {
    stdio: ["ignore", "pipe", "inherit"],
  })
  const ended = once(child, "close")
  stopAttacks = async () => {
    child.kill("SIGKILL")
    await ended
  }
  await once(child.stdout, "data")
})
afterAll(async () => {
  await stopAttacks()
  rmSync(directory, { recursive: true, force: true })
})

const never = new AbortController().signal

/** Watches by how much the memory in use grows at most from now on. */
const watchMemory = () => {
  const used = () => {
    const { heapUsed, external, arrayBuffers } = process.memoryUsage()
    return heapUsed + external + arrayBuffers
  }
  const before = used()
  let most = before
  const timer = setInterval(() => {
    most = Math.max(most, used())
  }, 5)
  onTestFinished(() => clearInterval(timer))
  return { grownBytes: () => Math.max(most, used()) - before }
}

const at = (attack: AttackName) => ({ path: join(directory, socketName(attack)) })

describe("a hostile supervisor", () => {
  it.each<[AttackName, ErrorCode]>([
    ["never answers", "bridge.timed_out"],
    ["closes at once", "bridge.dropped"],
    ["sends garbage", "bridge.protocol_violated"],
    ["sends garbage without end", "bridge.protocol_violated"],
    ["drips its headers", "bridge.timed_out"],
    ["sends headers without end", "bridge.limit_exceeded"],
    ["sends early hints without end", "bridge.limit_exceeded"],
    ["redirects", "bridge.protocol_violated"],
    ["refuses the token", "bridge.unauthorized"],
    ["answers with a document without end", "bridge.protocol_violated"],
    ["accepts with a wrong key", "bridge.protocol_violated"],
    ["turns compression on", "bridge.protocol_violated"],
    ["accepts and says nothing", "bridge.timed_out"],
    ["drips its hello", "bridge.timed_out"],
    ["begins with events", "bridge.protocol_violated"],
    ["is another sandbox", "bridge.foreign_id"],
    ["is of another generation", "bridge.generation_mismatch"],
    ["says hello twice", "bridge.protocol_violated"],
    ["announces a frame of a terabyte", "bridge.limit_exceeded"],
    ["sends a message that is too large", "bridge.limit_exceeded"],
    ["sends a message in fragments", "bridge.limit_exceeded"],
    ["sends a bomb", "bridge.protocol_violated"],
    ["sends masked frames", "bridge.protocol_violated"],
    ["sends binary", "bridge.protocol_violated"],
    ["sends unknown frames", "bridge.protocol_violated"],
    ["sends broken text", "bridge.protocol_violated"],
    ["floods with pings", "bridge.protocol_violated"],
    ["floods with pongs", "bridge.protocol_violated"],
    ["closes in the middle of a frame", "bridge.dropped"],
    ["drips an event", "bridge.timed_out"],
    ["falls silent", "bridge.timed_out"],
    ["sends no JSON", "bridge.protocol_violated"],
    ["nests without end", "bridge.limit_exceeded"],
    ["nests in an event", "bridge.limit_exceeded"],
    ["sends empty events without number", "bridge.limit_exceeded"],
    ["sends more events than a batch has", "bridge.protocol_violated"],
    ["sends an unknown type", "bridge.protocol_violated"],
    ["sends keys of its own", "bridge.protocol_violated"],
    ["tells of a gap", "bridge.protocol_violated"],
    ["tells of a sandbox's phase", "bridge.protocol_violated"],
    ["sends a prototype", "bridge.protocol_violated"],
    ["sends no events", "bridge.protocol_violated"],
    ["answers without a question", "bridge.protocol_violated"],
    ["skips a number", "bridge.wrong_number"],
    ["repeats a number", "bridge.wrong_number"],
    ["goes back", "bridge.wrong_number"],
    ["starts late", "bridge.wrong_number"],
    ["starts at zero", "bridge.protocol_violated"],
    ["counts in halves", "bridge.protocol_violated"],
    ["counts beyond all numbers", "bridge.protocol_violated"],
    ["asks a thousand times", "bridge.limit_exceeded"],
    ["asks twice under one id", "bridge.protocol_violated"],
    ["asks under an id of another kind", "bridge.protocol_violated"],
    ["asks for an unknown thing", "bridge.protocol_violated"],
    ["asks for a repo above", "bridge.protocol_violated"],
    ["asks for a path of the host", "bridge.protocol_violated"],
    ["asks for an option", "bridge.protocol_violated"],
    ["asks for a range", "bridge.protocol_violated"],
    ["has more than a repo", "bridge.protocol_violated"],
    ["has an option for a commit", "bridge.protocol_violated"],
    ["asks for a submodule above", "bridge.protocol_violated"],
    ["asks for a submodule of a ref", "bridge.protocol_violated"],
    ["asks for a submodule without a bottom", "bridge.protocol_violated"],
    ["asks about a host without end", "bridge.protocol_violated"],
  ])(
    "that %s is cut off with %s in time, and heard again when it behaves",
    async (attack, code) => {
      const memory = watchMemory()
      const startedMs = performance.now()
      const deadlines = code === "bridge.timed_out" ? SHORT_DEADLINES : DEADLINES
      const watched = watchBridge({ address: at(attack), sandbox, deadlines })
      expect(await firstFailure(watched)).toMatchObject({ code })
      expect(performance.now() - startedMs).toBeLessThan(deadlines.openMs + SLACK_MS)
      expect(memory.grownBytes()).toBeLessThan(48 * MIB)

      await watched.until(() => watched.bridge.state.kind === "up" && watched.events.length === 3)
      expect(watched.events.map(({ sequence }) => sequence)).toEqual([1, 2, 3])
      expect(await watched.bridge.stopPrompt(newId.prompt())).toEqual({ state: "unknown" })
    },
  )

  it("that floods with events is read at a bounded rate, in less than 64 MiB, beside another bridge", async () => {
    const memory = watchMemory()
    const flooding = watchBridge({
      address: at("floods with events"),
      sandbox,
      // The flood keeps its sandbox busy. This test does not look at how soon the sandbox answers.
      deadlines: { ...DEADLINES, pongMs: 5_000 },
    })
    await flooding.until(() => flooding.events.length > 0)
    const other = watchBridge({ address: at("redirects"), sandbox, deadlines: DEADLINES })
    await other.until(() => other.bridge.state.kind === "up")
    // Takes the events away, since only this test keeps them.
    const seen = () => flooding.events.splice(0).length
    let count = 0
    let answered = 0
    for (const endMs = performance.now() + FLOODED_MS; performance.now() < endMs; ) {
      count += seen()
      expect(await other.bridge.stopPrompt(newId.prompt())).toEqual({ state: "unknown" })
      answered += 1
    }
    // A bridge that had to wait behind the flood would not be answered so often in this time.
    expect(answered).toBeGreaterThan(FLOODED_MS / 1_000)
    expect(count).toBeGreaterThan(FLOODED_MS / 3)
    expect(count).toBeLessThan(50 * FLOODED_MS)
    expect(memory.grownBytes()).toBeLessThan(64 * MIB)
    expect(flooding.states.filter(({ kind }) => kind === "down")).toEqual([])
  })

  it("that floods a slow store is read in batches below 2 MiB, and not taken for dead", async () => {
    const memory = watchMemory()
    // Longer than a busy machine takes for an answer, so that only an unread sandbox could be taken for dead.
    const pongMs = 1_500
    let batches = 0
    let mostBytes = 0
    const flooding = watchBridge({
      address: at("floods a slow store"),
      sandbox,
      deadlines: { ...DEADLINES, pongMs },
      onEvents: async (events) => {
        batches++
        mostBytes = Math.max(mostBytes, JSON.stringify(events).length)
        await new Promise((resolve) => setTimeout(resolve, 1.2 * pongMs))
      },
    })
    await flooding.until(() => batches === 2)
    expect(mostBytes).toBeLessThan(2 * MIB)
    expect(memory.grownBytes()).toBeLessThan(48 * MIB)
    expect(flooding.states.filter(({ kind }) => kind === "down")).toEqual([])
  })
})

describe("the place of a sandbox's socket", () => {
  let honest = 0

  /** Makes a socket of the host that no bridge may be led to. */
  const hostSocket = async (path: string) => {
    const connections: unknown[] = []
    const server = createServer((socket) => {
      connections.push(socket)
      socket.destroy()
    })
    server.listen(path)
    await once(server, "listening")
    onTestFinished(() => void server.close())
    return connections
  }

  const place = () => {
    const own = mkdtempSync(join(tmpdir(), "berth-place-"))
    onTestFinished(() => rmSync(own, { recursive: true, force: true }))
    return own
  }

  it.each<[string, (path: string, host: string) => void]>([
    ["a link to a socket of the host", (path, host) => symlinkSync(host, path)],
    ["a link to nothing", (path) => symlinkSync("/nowhere", path)],
    ["a file", (path) => writeFileSync(path, "")],
    ["a directory", (path) => mkdirSync(path)],
    ["a fifo", (path) => execFileSync("mkfifo", [path])],
  ])("is refused with %s in it, and used once a socket is there", async (_what, make) => {
    const own = place()
    const path = join(own, "socket")
    const host = join(own, "host")
    const connections = await hostSocket(host)
    make(path, host)
    const watched = watchBridge({ address: { path }, sandbox, deadlines: DEADLINES })
    expect(await firstFailure(watched)).toMatchObject({
      code: "bridge.not_a_socket",
      details: { path },
    })
    await expect(
      getFromSandbox({ address: { path }, token: TOKEN, path: "/health", schema: z.any() }, never),
    ).rejects.toMatchObject({ code: "bridge.not_a_socket" })
    expect(connections).toEqual([])
    rmSync(path, { recursive: true })
    renameSync(join(directory, `honest-${honest++}`), path)
    await watched.until(() => watched.bridge.state.kind === "up")
  })

  it("is tried again within 100 ms while it is empty, and used once a socket is there", async () => {
    const path = join(place(), "socket")
    const watched = watchBridge({ address: { path }, sandbox, deadlines: DEADLINES })
    expect(await firstFailure(watched)).toMatchObject({ code: "bridge.unreachable" })
    const failures = () =>
      watched.states.flatMap((state) => (state.kind === "down" ? [state.retryInMs] : []))
    await watched.until(() => failures().length === 10)
    expect(Math.max(...failures())).toBeLessThanOrEqual(100)
    renameSync(join(directory, `honest-${honest++}`), path)
    await watched.until(() => watched.bridge.state.kind === "up")
  })
})
