import { once } from "node:events"
import { request } from "node:http"
import { type AddressInfo, connect as connectTo, createServer, type Socket } from "node:net"
import { buffer } from "node:stream/consumers"
import { MAX_HOST_CONNECTIONS } from "@berth/protocol/port-limits"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { CarriedPorts } from "./host-ports.ts"
import { HostRequests } from "./host-requests.ts"
import { AUTHORIZED, connect, helloTo, serve } from "./testing/supervisor.ts"

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, "close")
  return port
}

const isAsk = ({ type }: Record<string, unknown>) => type === "ask"

/** Opens a port of the host inside, with a server that the test plays. */
const open = async () => {
  const hostRequests = new HostRequests()
  const warnings: string[] = []
  let nowMs = 0
  const warn = (message: string) => warnings.push(message)
  const carried = new CarriedPorts({ hostRequests, clock: { nowMs: () => nowMs }, warn })
  const { path, sandbox } = await serve({ hostRequests })
  onTestFinished(() => carried.close())
  const port = await freePort()
  await carried.listen(port)
  const server = connect(path)
  await server.opened
  server.say(helloTo(sandbox))

  const dial = async (): Promise<Socket> => {
    const client = connectTo({ host: "127.0.0.1", port, allowHalfOpen: true })
    onTestFinished(() => void client.on("error", () => {}).destroy())
    await once(client, "connect")
    return client
  }
  /** Waits for the question of the n-th connection, and returns its id. */
  const asked = async (count = 1): Promise<string> => {
    await server.until(() => server.received.filter(isAsk).length >= count)
    const { id, ask } = server.received.filter(isAsk)[count - 1] ?? {}
    expect(ask).toEqual({ kind: "host-port", port })
    return String(id)
  }
  const openTunnel = async (id: string): Promise<Socket> => {
    const headers = { ...AUTHORIZED, connection: "upgrade", upgrade: "bytes" }
    const sent = request({ socketPath: path, path: `/host-ports/${id}`, headers, agent: false })
    sent.end()
    const answered = once(sent, "response").then(([response]) => {
      response.resume()
      throw new Error(String(response.statusCode))
    })
    const [, tunnel, head] = await Promise.race([once(sent, "upgrade"), answered])
    tunnel.allowHalfOpen = true
    if (head.length > 0) tunnel.unshift(head)
    onTestFinished(() => void tunnel.on("error", () => {}).destroy())
    return tunnel
  }
  const refuse = (id: string, code = "host_port.unreachable") =>
    server.say({
      type: "answer",
      id,
      answer: { kind: "refused", code, reason: "nothing is there" },
    })
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { carried, port, server, warnings, dial, asked, openTunnel, refuse, pass }
}

describe("a port of the host, inside", () => {
  it("carries bytes sent before and after the server takes the connection, and the end of each direction by itself", async () => {
    const { dial, asked, openTunnel } = await open()
    const client = await dial()
    client.write("early ")
    const tunnel = await openTunnel(await asked())
    client.end("and late")
    expect(String(await buffer(tunnel))).toBe("early and late")
    tunnel.end("answered")
    expect(String(await buffer(client))).toBe("answered")
  })

  it("is broken off on both sides when either side breaks off", async () => {
    const { dial, asked, openTunnel } = await open()
    const [one, other] = [await dial(), await dial()]
    const tunnels = [await openTunnel(await asked(1)), await openTunnel(await asked(2))]
    const ended = once(one.resume(), "end")
    tunnels[0]?.destroy()
    await ended
    const over = once(tunnels[1]?.resume() as Socket, "end")
    other.resetAndDestroy()
    await over
  })

  it("closes a connection that the server refuses, with one warning a minute", async () => {
    const { port, dial, asked, refuse, warnings, pass } = await open()
    for (const count of [1, 2, 3]) {
      const client = await dial()
      const closed = once(client.resume(), "close")
      client.on("end", () => client.end())
      refuse(await asked(count))
      await closed
      expect(warnings).toHaveLength(count < 3 ? 1 : 2)
      if (count === 2) pass(60_000)
    }
    expect(warnings[0]).toBe(`port ${port} of the host is not reached: nothing is there`)
  })

  it("hands each connection over once, and only for the id of its question", async () => {
    const { dial, asked, openTunnel } = await open()
    await expect(openTunnel("ask-00000000000000000000")).rejects.toThrow("404")
    await dial()
    const id = await asked()
    await openTunnel(id)
    await expect(openTunnel(id)).rejects.toThrow("404")
  })

  it("asks for eight connections at a time, and drops connections beyond their limit", async () => {
    const { dial, asked, server, refuse } = await open()
    for (let count = 0; count < MAX_HOST_CONNECTIONS; count++) await dial()
    const beyond = (await dial()).resume()
    await new Promise((resolve) => {
      for (const end of ["end", "error"]) beyond.once(end, resolve)
    })
    await asked(8)
    expect(server.received.filter(isAsk)).toHaveLength(8)
    refuse(await asked(1))
    await asked(9)
  })

  it("is refused where its number is taken inside, and ends all connections when it is closed", async () => {
    const { carried, port, dial, asked, openTunnel } = await open()
    await expect(carried.listen(port)).rejects.toMatchObject({ code: "bridge.listen_failed" })
    const client = await dial()
    const tunnel = await openTunnel(await asked())
    carried.close()
    await Promise.all([once(client.resume(), "end"), once(tunnel.resume(), "end")])
    await vi.waitFor(() => expect(dial()).rejects.toMatchObject({ code: "ECONNREFUSED" }))
  })
})
