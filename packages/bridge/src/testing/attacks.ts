import { randomBytes } from "node:crypto"
import type { Socket } from "node:net"
import { deflateRawSync } from "node:zlib"
import { MAX_MESSAGE_EVENTS } from "@berth/protocol/bridge-limits"
import { acceptance, frame } from "./frames.ts"

/** The attack of a hostile supervisor on its first connection. `sandbox` is its own id. */
export type Attack = (socket: Socket, sandbox: string) => void | Promise<void>

const DRIP_MS = 20
const MIB = 1024 * 1024

export const eventOf = (sequence: unknown, body: unknown = { type: "warning", message: "x" }) => ({
  sequence,
  at: "2026-01-01T00:00:00.000Z",
  body,
})

export const helloOf = (sandbox: string, changes: object = {}) => ({
  type: "hello",
  generation: 1,
  sandbox,
  first: 1,
  last: 0,
  ...changes,
})

const PROMPT = "pr-0123456789abcdefghjk"
const OTHER_SANDBOX = "sb-zzzzzzzzzzzzzzzzzzzz"

/** A small payload that inflates to 64 MiB. */
const BOMB = deflateRawSync(Buffer.alloc(64 * MIB))

/** Writes again and again, as fast as the other side reads. */
const flood = (socket: Socket, next: () => string | Buffer) => {
  const write = () => {
    while (!socket.destroyed && socket.write(next()));
  }
  socket.on("drain", write)
  write()
}

const drip = (socket: Socket, bytes: Buffer | string) => {
  const all = Buffer.from(bytes)
  let place = 0
  const timer = setInterval(() => {
    // The last byte is never sent.
    if (place < all.length - 1) socket.write(all.subarray(place, ++place))
  }, DRIP_MS)
  socket.on("close", () => clearInterval(timer))
}

/** Opens the connection properly, and then attacks. */
const afterUpgrade =
  (act: Attack): Attack =>
  async (socket, sandbox) => {
    socket.write(await acceptance(socket))
    await act(socket, sandbox)
  }

/** Says a proper hello first, and then attacks. */
const afterHello = (act: Attack): Attack =>
  afterUpgrade(async (socket, sandbox) => {
    socket.write(frame(JSON.stringify(helloOf(sandbox))))
    await act(socket, sandbox)
  })

const sends = (...messages: unknown[]): Attack =>
  afterHello((socket) => {
    for (const message of messages)
      socket.write(frame(typeof message === "string" ? message : JSON.stringify(message)))
  })

const sendsEvents = (...numbers: unknown[]): Attack =>
  sends({ type: "events", events: numbers.map((number) => eventOf(number)) })

const greets = (changes: object): Attack =>
  afterUpgrade((socket, sandbox) => {
    socket.write(frame(JSON.stringify(helloOf(sandbox, changes))))
  })

const answers =
  (text: string): Attack =>
  (socket) => {
    socket.write(text)
  }

function floodWithEvents(socket: Socket): void {
  let next = 1
  flood(socket, () => {
    const events = Array.from({ length: 20 }, () => eventOf(next++))
    return frame(JSON.stringify({ type: "events", events }))
  })
}

const askOf = (place: number, ask: unknown = { kind: "repo", repo: "r", have: [] }) => ({
  type: "ask",
  id: `ask-${String(place).padStart(20, "0")}`,
  ask,
})

const asks = (ask: object): Attack => sends(askOf(1, ask))

export const ATTACKS = {
  // Attacks before the connection is open.
  "never answers": () => {},
  "closes at once": (socket) => void socket.destroy(),
  "sends garbage": (socket) => void socket.write(randomBytes(10_000)),
  "sends garbage without end": (socket) => flood(socket, () => randomBytes(65_536)),
  "drips its headers": (socket) => drip(socket, `HTTP/1.1 101 ${"x".repeat(5_000)}`),
  "sends headers without end": (socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\n")
    flood(socket, () => `x-header: ${"x".repeat(1_000)}\r\n`)
  },
  "sends early hints without end": (socket) =>
    flood(socket, () => "HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"),
  redirects: answers(
    "HTTP/1.1 302 Found\r\nlocation: ws://127.0.0.1:9/bridge\r\ncontent-length: 0\r\n\r\n",
  ),
  "refuses the token": answers("HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n"),
  "answers with a document without end": (socket) => {
    socket.write("HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n")
    flood(socket, () => Buffer.alloc(65_536))
  },
  "accepts with a wrong key": answers(
    "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: wrong\r\n\r\n",
  ),
  "turns compression on": async (socket) =>
    void socket.write(await acceptance(socket, "sec-websocket-extensions: permessage-deflate\r\n")),

  // Attacks instead of a hello.
  "accepts and says nothing": afterUpgrade(() => {}),
  "drips its hello": afterUpgrade((socket, sandbox) =>
    drip(socket, frame(JSON.stringify(helloOf(sandbox)))),
  ),
  "begins with events": afterUpgrade(
    (socket) => void socket.write(frame(JSON.stringify({ type: "events", events: [eventOf(1)] }))),
  ),
  "is another sandbox": greets({ sandbox: OTHER_SANDBOX }),
  "is of another generation": greets({ generation: 2, whatever: { that: "brings" } }),
  "says hello twice": afterHello(
    (socket, sandbox) => void socket.write(frame(JSON.stringify(helloOf(sandbox)))),
  ),

  // Attacks with frames.
  "announces a frame of a terabyte": afterHello(
    (socket) => void socket.write(frame("x", { length: 2n ** 40n })),
  ),
  "sends a message that is too large": sends(`"${"x".repeat(MIB)}"`),
  "sends a message in fragments": afterHello((socket) => {
    socket.write(frame("{", { fin: false }))
    flood(socket, () => frame("x", { opcode: 0, fin: false }))
  }),
  "sends a bomb": afterHello((socket) => void socket.write(frame(BOMB, { rsv1: true }))),
  "sends masked frames": afterHello((socket) => void socket.write(frame("{}", { masked: true }))),
  "sends binary": afterHello((socket) => {
    const message = { type: "events", events: [eventOf(1)] }
    socket.write(frame(JSON.stringify(message), { opcode: 2 }))
  }),
  "sends unknown frames": afterHello((socket) => void socket.write(frame("{}", { opcode: 5 }))),
  "sends broken text": afterHello((socket) => void socket.write(frame(Buffer.from([0xff, 0xfe])))),
  "floods with pings": afterHello((socket) => flood(socket, () => frame("x", { opcode: 9 }))),
  "floods with pongs": afterHello((socket) => flood(socket, () => frame("x", { opcode: 10 }))),
  "closes in the middle of a frame": afterHello((socket) => {
    socket.end(frame(JSON.stringify(eventOf(1))).subarray(0, 20))
  }),
  "drips an event": afterHello((socket) => {
    const events = [eventOf(1, { type: "warning", message: "x".repeat(100_000) })]
    drip(socket, frame(JSON.stringify({ type: "events", events })))
  }),
  "falls silent": afterHello(() => {}),

  // Attacks with messages.
  "sends no JSON": sends("nonsense"),
  "nests without end": sends("[".repeat(1_000_000)),
  "nests in an event": sends(
    `{"type":"events","events":[${'{"a":'.repeat(40)}1${"}".repeat(40)}]}`,
  ),
  "sends empty events without number": sends(
    `{"type":"events","events":[${"{},".repeat(340_000)}{}]}`,
  ),
  "sends more events than a batch has": sends({
    type: "events",
    events: Array.from({ length: MAX_MESSAGE_EVENTS + 1 }, (_, place) => eventOf(place + 1)),
  }),
  "sends an unknown type": sends({ type: "shutdown" }),
  "sends keys of its own": sends({ type: "events", events: [{ ...eventOf(1), admin: true }] }),
  "tells of a gap": sends({
    type: "events",
    events: [{ ...eventOf(1), body: { type: "gap", reason: "nothing was here" } }],
  }),
  "tells of a sandbox's phase": sends({
    type: "events",
    events: [
      {
        ...eventOf(1),
        body: {
          type: "sandbox.phase",
          sandbox: "sb-0123456789abcdefghjk",
          phase: "gone",
          reason: "removed",
        },
      },
    ],
  }),
  "sends a prototype": sends(
    '{"type":"events","events":[{"sequence":1,"at":"2026-01-01T00:00:00Z","body":{"type":"warning","message":"x"},"__proto__":{"a":1}}]}',
  ),
  "sends no events": sends({ type: "events", events: [] }),
  "answers without a question": sends({
    type: "prompt.standing",
    prompt: PROMPT,
    standing: { state: "accepted" },
  }),

  // Attacks with numbers and ids.
  "skips a number": sendsEvents(1, 2, 4),
  "repeats a number": sendsEvents(1, 2, 2),
  "goes back": sendsEvents(1, 2, 1),
  "starts late": sendsEvents(2),
  "starts at zero": sendsEvents(0),
  "counts in halves": sendsEvents(1, 1.5),
  "counts beyond all numbers": sendsEvents(1, 2 ** 53),

  // Attacks with questions.
  "asks a thousand times": sends(...Array.from({ length: 1_000 }, (_, place) => askOf(place))),
  "asks twice under one id": sends(askOf(1), askOf(1)),
  "asks under an id of another kind": sends({ ...askOf(1), id: PROMPT }),
  "asks for an unknown thing": asks({ kind: "file", path: "/etc/shadow" }),
  "asks for a repo above": asks({ kind: "repo", repo: "../repo", have: [] }),
  "asks for a path of the host": asks({ kind: "repo", repo: "/etc", have: [] }),
  "asks for an option": asks({ kind: "repo", repo: "r", ref: "--upload-pack=x", have: [] }),
  "asks for a range": asks({ kind: "repo", repo: "r", ref: "main..other", have: [] }),
  "asks for a submodule above": asks({
    kind: "repo",
    repo: "r",
    have: [],
    submodule: { of: "0".repeat(40), paths: ["lib/../../.."] },
  }),
  "asks for a submodule of a ref": asks({
    kind: "repo",
    repo: "r",
    have: [],
    submodule: { of: "HEAD", paths: ["lib"] },
  }),
  "asks for a submodule without a bottom": asks({
    kind: "repo",
    repo: "r",
    have: [],
    submodule: { of: "0".repeat(40), paths: Array.from({ length: 1_000 }, () => "lib") },
  }),
  "has more than a repo": asks({
    kind: "repo",
    repo: "r",
    have: Array.from({ length: 10_000 }, () => "0".repeat(40)),
  }),
  "has an option for a commit": asks({ kind: "repo", repo: "r", have: ["--all"] }),
  "asks about a host without end": asks({
    kind: "credential",
    protocol: "https",
    host: "x".repeat(500_000),
  }),

  // Attacks with valid messages without end.
  "floods with events": afterHello(floodWithEvents),
  "floods a slow store": afterHello(floodWithEvents),
} as const satisfies Record<string, Attack>

export type AttackName = keyof typeof ATTACKS
