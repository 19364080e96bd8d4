import { once } from "node:events"
import { lstatSync } from "node:fs"
import { connect } from "node:net"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import type { HostRequest } from "@berth/protocol/bridge"
import { requires } from "@berth/testing/requires"
import { describe, expect, it, onTestFinished } from "vitest"
import { temporaryDirectory } from "../journal/testing/events.ts"
import { type CredentialsOptions, MAX_CONNECTIONS, serveCredentials } from "./credentials.ts"
import { HostRequests } from "./host-requests.ts"

/** A socket for git, with a server behind it that grants everything. */
const serve = async (options: Partial<CredentialsOptions> = {}) => {
  const hostRequests = new HostRequests()
  const asked: HostRequest[] = []
  hostRequests.connect(({ id, ask }) => {
    asked.push(ask)
    queueMicrotask(() =>
      hostRequests.answer(id, { kind: "credential", username: "u", password: "p" }),
    )
  })
  const path = join(temporaryDirectory(), "git", "socket")
  const server = await serveCredentials({ path, user: undefined, hostRequests, ...options })
  onTestFinished(() => server.close())
  const open = () => {
    const socket = connect(path)
    socket.on("error", () => {})
    onTestFinished(() => void socket.destroy())
    return socket
  }
  const say = async (question: string) => {
    const socket = open()
    socket.end(question)
    return await text(socket)
  }
  return { path, asked, open, say, server }
}

describe("the socket of git's credential helper", () => {
  it("passes on the protocol, host and path of git's question alone", async () => {
    const { say, asked } = await serve()
    const question =
      "capability[]=authtype\nprotocol=https\nhost=example.test:8443\npath=a/b=c.git\nusername=x\n\n"
    expect(JSON.parse(await say(question))).toEqual({ username: "u", password: "p" })
    const [protocol, host, path] = ["https", "example.test:8443", "a/b=c.git"]
    expect(asked).toEqual([{ kind: "credential", protocol, host, path }])
  })

  it.each([
    ["is empty", ""],
    ["names no host", "protocol=https\n"],
    ["is of another protocol", "protocol=ssh\nhost=example.test\n"],
    ["has a host without end", `protocol=https\nhost=${"x".repeat(3_000)}\n`],
    ["has no end", "x".repeat(1_000_000)],
  ])("refuses a question that %s", async (_, question) => {
    const { say, asked } = await serve()
    expect(JSON.parse(await say(question))).toEqual({
      refused: expect.stringContaining("no credentials"),
    })
    expect(asked).toEqual([])
  })

  it("ends connections that do not finish their question", async () => {
    const { open, say } = await serve({ questionDeadlineMs: 300 })
    const idle = Array.from({ length: MAX_CONNECTIONS + 5 }, open)
    const closed = idle.map(async (socket) => await text(socket).catch(() => ""))
    expect((await Promise.all(closed)).join("")).toBe("")
    expect(await say("protocol=https\nhost=h\npath=p\n")).toContain("password")
  })

  it("drops connections beyond its limit", async () => {
    const { open } = await serve()
    let closed = 0
    for (let number = 0; number < MAX_CONNECTIONS + 5; number++)
      open()
        .resume()
        .once("close", () => closed++)
    await expect.poll(() => closed).toBe(5)
  })

  it("ends every connection when it is closed, also when it is closed twice", async () => {
    const { open, server } = await serve()
    const sockets = Array.from({ length: 5 }, open)
    await Promise.all(sockets.map((socket) => once(socket, "connect")))
    const closed = sockets.map((socket) => new Promise((resolve) => socket.once("close", resolve)))
    await Promise.all([server.close(), server.close()])
    await Promise.all(closed)
  })

  requires("root").it("belongs to the user alone", async () => {
    const { path } = await serve({ user: { uid: 12_345, gid: 12_345 } })
    const { uid, mode } = lstatSync(path)
    expect([uid, mode & 0o777]).toEqual([12_345, 0o600])
    expect(lstatSync(join(path, "..")).mode & 0o777).toBe(0o755)
  })
})
