import { once } from "node:events"
import { createServer } from "node:http"
import { createServer as createPlainServer } from "node:net"
import { describe, expect, it } from "vitest"
import { type WebSocket, WebSocketServer } from "ws"
import { stopApi } from "../stop.ts"
import { TOKEN } from "../testing/make-api.ts"
import { answering, INSIDE, saying, start } from "./testing/played-sandbox.ts"

describe("WebSockets to a sandbox", () => {
  /** A sandbox that sends the request's URL and token first, and then echoes. */
  const echoing = () => {
    const server = createServer()
    const sockets = new WebSocketServer({ server })
    sockets.on("connection", (socket, { url, headers }) => {
      socket.send(Buffer.from(JSON.stringify({ url, authorization: headers.authorization })))
      socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }))
    })
    return start(server)
  }
  const failed = async (socket: WebSocket): Promise<number> => {
    const [, response] = await once(
      socket.on("error", () => {}),
      "unexpected-response",
    )
    socket.terminate()
    return response.statusCode
  }

  it("pass bytes both ways, and end with either side", async () => {
    const { socket, open } = await echoing()
    const client = socket("/ports/80/connect?a=b")
    const [hello] = await once(client, "message")
    expect(JSON.parse(String(hello))).toEqual({
      url: "/ports/80/connect?a=b",
      authorization: `Bearer ${INSIDE}`,
    })
    const bytes = Buffer.alloc(1_000_000, 7)
    client.send(bytes)
    const [back, isBinary] = await once(client, "message")
    expect([bytes.equals(back), isBinary]).toEqual([true, true])
    client.terminate()
    await expect.poll(() => open.size).toBe(0)
    const other = socket("/ports/80/connect")
    await once(other, "message")
    for (const each of open) each.destroy()
    expect((await once(other, "close"))[0]).toBe(1006)
  })

  it("take the token as a subprotocol, and only from pages of this machine", async () => {
    const { socket } = await echoing()
    const bearer = `berth.bearer.${TOKEN}`
    const page = { origin: "http://localhost:3000" }
    for (const [offered, chosen] of [
      [["berth", bearer], "berth"],
      [[bearer], bearer],
    ] as const) {
      const client = socket("/commands/run", [...offered], page)
      await once(client, "open")
      expect(client.protocol).toBe(chosen)
      client.terminate()
    }
    for (const origin of ["http://evil.example", "null", "http://localhost.evil.example"])
      expect(await failed(socket("/commands/run", [bearer], { origin }))).toBe(403)
    expect(await failed(socket("/commands/run", [], {}))).toBe(401)
    expect(await failed(socket("/bridge"))).toBe(404)
  })

  it("tell a client that sees no HTTP status why it is refused", async () => {
    const { socket } = await answering((_, response) => response.end())
    const said = JSON.stringify({ code: "not_found", message: "no such", details: {} })
    const { socket: refusing } = await saying(
      `HTTP/1.1 404 No\r\nContent-Length: ${said.length}\r\n\r\n${said}`,
    )
    const refusalOf = async (client: WebSocket) =>
      JSON.parse(String((await once(client, "message"))[0]))
    expect(
      await refusalOf(socket("/commands/run", ["berth", "berth.bearer.wrong"], {})),
    ).toMatchObject({ type: "refused", error: { code: "auth.required" } })
    const right = ["berth", `berth.bearer.${TOKEN}`]
    expect(await refusalOf(refusing("/commands/x/attach", right, {}))).toMatchObject({
      type: "refused",
      error: { code: "not_found", message: "no such" },
    })
    const early = refusing("/commands/x/attach", [...right, "berth.refused"], {})
    await once(early, "open")
    expect(early.protocol).toBe("berth.refused")
    expect(await failed(refusing("/commands/x/attach"))).toBe(404)
  })

  it("send a refusal longer than 64 KiB as one frame", async () => {
    // Each byte is no UTF-8, and becomes the three bytes of U+FFFD.
    const bytes = Buffer.alloc(60_000, 0xff).toString("latin1")
    const said = `{"code":"process.not_found","message":"m","details":{"x":"${bytes}"}}`
    const { socket } = await start(
      createPlainServer((sandbox) =>
        sandbox.once("data", () =>
          sandbox.end(`HTTP/1.1 404 No\r\nContent-Length: ${said.length}\r\n\r\n${said}`, "latin1"),
        ),
      ),
    )
    const client = socket("/commands/run", ["berth", `berth.bearer.${TOKEN}`], {})
    const [frame] = await once(client, "message")
    expect(frame.length).toBeGreaterThan(65_536)
    expect(JSON.parse(String(frame)).error.details.x).toBe("\ufffd".repeat(60_000))
    expect((await once(client, "close"))[0]).toBe(1011)
  })

  it.each([
    ["a wrong key", "HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"],
    ["no upgrade", "HTTP/1.1 200 OK\r\n\r\n"],
    ["nothing", ""],
  ])(
    "fail with a status above 500 when the sandbox answers the upgrade with %s",
    async (_, bytes) => {
      const { socket } = await saying(bytes)
      expect(await failed(socket("/commands/run"))).toBeGreaterThan(500)
    },
  )

  it("do not hold up a server that stops", async () => {
    const { socket, api } = await echoing()
    const client = socket("/ports/80/connect")
    await once(client, "message")
    const closed = once(client, "close")
    expect(await stopApi(api, 10_000)).toBe(true)
    await closed
  })
})
