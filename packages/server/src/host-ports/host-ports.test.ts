import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { connect, createServer, type Server, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { buffer } from "node:stream/consumers"
import { newId } from "@berth/protocol/ids"
import { MAX_HOST_CONNECTIONS } from "@berth/protocol/port-limits"
import pino from "pino"
import { describe, expect, it, onTestFinished, vi } from "vitest"
import { HostPorts } from "./host-ports.ts"

const MIB = 1024 * 1024
const never = new AbortController().signal

const listenAt = async (server: Server, address: { path: string } | { host: string }) => {
  const sockets = new Set<Socket>()
  server.on("connection", (socket) => sockets.add(socket.on("error", () => {})))
  server.listen("path" in address ? address : { ...address, port: 0 })
  await once(server, "listening")
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { port: Number(Object(server.address()).port), sockets }
}

/** Starts a program on the host's loopback. */
const onHost = async (serve: (socket: Socket) => void) => {
  const server = createServer({ allowHalfOpen: true }, serve)
  return { ...(await listenAt(server, { host: "127.0.0.1" })), server }
}

/** Opens connections to a sandbox's socket: the server's ends, and those of the program inside. */
const openTunnels = async () => {
  const directory = mkdtempSync(join(tmpdir(), "berth-host-ports-"))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true })
  const path = join(directory, "socket")
  await listenAt(server, { path })
  const inside: Socket[] = []
  const open = vi.fn(async () => {
    const accepted = once(server, "connection")
    const tunnel = connect({ path, allowHalfOpen: true })
    await once(tunnel, "connect")
    inside.push((await accepted)[0] as Socket)
    return tunnel
  })
  return { open, inside: () => inside.at(-1) as Socket }
}

const hostPorts = (ports: readonly number[], apiPort?: number) => {
  const made = new HostPorts({
    sandbox: newId.sandbox(),
    ports,
    apiPort,
    log: pino({ level: "silent" }),
  })
  onTestFinished(() => made.close())
  return made
}

describe("a connection of a sandbox to a port of the host", () => {
  it("carries bytes both ways, and ends each way by itself", async () => {
    const { port } = await onHost((socket) => {
      void buffer(socket).then(({ length }) => socket.end(`${length} bytes`))
    })
    const { open, inside } = await openTunnels()
    await hostPorts([port]).connect(port, open, never)
    inside().end(Buffer.alloc(8 * MIB))
    expect(String(await buffer(inside()))).toBe(`${8 * MIB} bytes`)
  })

  it("can be ended by the host first, while the sandbox still writes", async () => {
    const heard = Promise.withResolvers<Buffer>()
    const { port } = await onHost((socket) => {
      socket.end("bye")
      heard.resolve(buffer(socket))
    })
    const { open, inside } = await openTunnels()
    await hostPorts([port]).connect(port, open, never)
    expect(String(await buffer(inside()))).toBe("bye")
    inside().end("still here")
    expect(String(await heard.promise)).toBe("still here")
  })

  it("holds up the host's program while the sandbox does not read", async () => {
    let written = 0
    const stuck = Promise.withResolvers<void>()
    const { port } = await onHost((socket) => {
      const chunk = Buffer.alloc(MIB)
      const more = () => {
        while (written < 64) {
          written++
          if (socket.write(chunk)) continue
          stuck.resolve()
          return void socket.once("drain", more)
        }
        socket.end()
      }
      more()
    })
    const { open, inside } = await openTunnels()
    await hostPorts([port]).connect(port, open, never)
    await stuck.promise
    // The kernel and the streams on the way hold some megabytes.
    await vi.waitFor(() => expect(written).toBeGreaterThan(0))
    expect(written).toBeLessThan(32)
    expect((await buffer(inside())).length).toBe(64 * MIB)
  })

  it("is broken off on both sides when either breaks off", async () => {
    const { port, sockets } = await onHost((socket) => socket.resume())
    const { open, inside } = await openTunnels()
    const ports = hostPorts([port])
    await ports.connect(port, open, never)
    const closed = once(inside().resume(), "end")
    for (const socket of sockets) socket.resetAndDestroy()
    await closed

    await ports.connect(port, open, never)
    await vi.waitFor(() => expect(sockets.size).toBe(2))
    const outside = [...sockets][1] as Socket
    const ended = once(outside, "end")
    inside().destroy()
    await ended
  })

  it("is refused for a port that the workspace does not name and for the server's own, and nothing is dialled", async () => {
    const { port, sockets } = await onHost(() => {})
    const { open } = await openTunnels()
    const refused = { code: "host_port.refused" }
    await expect(hostPorts([]).connect(port, open, never)).rejects.toMatchObject(refused)
    await expect(hostPorts([port], port).connect(port, open, never)).rejects.toMatchObject(refused)
    expect(open).not.toHaveBeenCalled()
    expect(sockets.size).toBe(0)
  })

  it("is refused where nothing listens, and closed on the host when the sandbox accepts none", async () => {
    const { port, server, sockets } = await onHost((socket) => socket.resume())
    const ports = hostPorts([port])
    const gone = new Error("the program inside is gone")
    await expect(ports.connect(port, () => Promise.reject(gone), never)).rejects.toBe(gone)
    await vi.waitFor(() => expect([...sockets].map((each) => each.readableEnded)).toEqual([true]))
    for (const socket of sockets) socket.destroy()
    server.close()
    await once(server, "close")
    const { open } = await openTunnels()
    const unreachable = { code: "host_port.unreachable", details: { port, code: "ECONNREFUSED" } }
    await expect(ports.connect(port, open, never)).rejects.toMatchObject(unreachable)
    expect(open).not.toHaveBeenCalled()
  })

  it("counts until the sandbox has read the last bytes of the host", async () => {
    const ended: Promise<unknown>[] = []
    const { port } = await onHost((socket) => {
      socket.resume().end("bye")
      ended.push(once(socket, "close"))
    })
    const { open, inside } = await openTunnels()
    const ports = hostPorts([port])
    const openFull = async () => {
      const tunnel = await open()
      while (tunnel.writableLength === 0) tunnel.write(Buffer.alloc(1024))
      return tunnel
    }
    const connectAndEnd = async () => {
      await ports.connect(port, openFull, never)
      inside().end()
      await ended.at(-1)
    }
    const many = async () => {
      for (let count = 0; count <= 2 * MAX_HOST_CONNECTIONS; count++) await connectAndEnd()
    }
    await expect(many()).rejects.toMatchObject({ code: "ports.too_many" })
  })

  it("is one of a bounded number, and all of them end with the sandbox", async () => {
    const { port, sockets } = await onHost((socket) => socket.resume())
    const { open } = await openTunnels()
    const ports = hostPorts([port])
    for (let count = 0; count < MAX_HOST_CONNECTIONS; count++)
      await ports.connect(port, open, never)
    const tooMany = { code: "ports.too_many", details: { limit: MAX_HOST_CONNECTIONS } }
    await expect(ports.connect(port, open, never)).rejects.toMatchObject(tooMany)
    ports.close()
    await vi.waitFor(() => expect([...sockets].every((each) => each.readableEnded)).toBe(true))
    await expect(ports.connect(port, open, never)).rejects.toMatchObject({ code: "cancelled" })
  })
})
