import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { once } from "node:events"
import type { Socket } from "node:net"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import { PORT_CLOSE } from "@berth/protocol/port-limits"
import { PortList, PortMessage } from "@berth/protocol/ports"
import { requires } from "@berth/testing/requires"
import { afterEach, describe, expect, it } from "vitest"
import { AUTHORIZED, get, serve } from "../bridge/testing/supervisor.ts"
import { Dispatch } from "../features/dispatch.ts"
import { type Clock, systemClock } from "../processes/clock.ts"
import { Pipes } from "../processes/output/pipes.ts"
import { ProcessSet } from "../processes/set.ts"
import { until } from "../processes/testing/until.ts"
import { portsFeature } from "./feature.ts"
import { PING_MS } from "./join.ts"
import { listenOn, openClient, standsStill } from "./testing/client.ts"

const MIB = 1024 * 1024

let features: Dispatch | undefined
afterEach(() => features?.close())

const open = async (clock: Clock = systemClock) => {
  const pipes = new Pipes("/tmp")
  const processes = new ProcessSet({ clock, pipes })
  const places = { workspace: "/tmp", home: "/tmp", toolbox: "/", logs: "/tmp" }
  const parts = { clock, pipes, processes, places, user: undefined, environment: {} }
  features = new Dispatch({ ports: async () => portsFeature(parts) })
  const { path } = await serve({ features })
  return {
    path,
    connect: (port: number | string) =>
      openClient(`ws+unix://${path}:/ports/${port}/connect`, AUTHORIZED),
    watch: () => openClient(`ws+unix://${path}:/ports/watch`, AUTHORIZED),
    list: async () => PortList.parse(JSON.parse((await get(path, "/ports")).body)).ports,
  }
}

describe("a connection to a port", () => {
  it.each(["127.0.0.1", "::1", "0.0.0.0", "::", "127.0.0.2"])(
    "reaches a program that listens on %s",
    async (host) => {
      const { connect } = await open()
      const { port } = await listenOn(host, (socket) => {
        socket.write("welcome\n")
        socket.pipe(socket)
      })
      const client = await connect(port)
      client.socket.send(Buffer.from("hello"))
      await until(() => client.text() === "welcome\nhello")
    },
  )

  requires("root", "networkNamespaces").it(
    "reaches a program that listens on an address of the sandbox alone",
    async () => {
      const program = fileURLToPath(new URL("./testing/own-address.ts", import.meta.url))
      for (const address of ["10.9.8.7", "fd09::8:7"]) {
        const script = `ip link set lo up; ip address add ${address} dev lo; exec "$@"`
        const node = [process.execPath, "--conditions=source", program, address]
        const args = ["--net", "sh", "-c", script, "sh", ...node]
        const { stdout } = await promisify(execFile)("unshare", args, { timeout: 20_000 })
        expect(stdout).toBe(`${address} reached\n`)
      }
    },
  )

  it("is refused where nothing listens, and for a value that is no port", async () => {
    const { connect } = await open()
    const { server, port } = await listenOn("127.0.0.1", () => {})
    server.close()
    await once(server, "close")
    await expect(connect(port)).rejects.toThrow("502")
    for (const wrong of ["0", "65536", "http", "-1"])
      await expect(connect(wrong)).rejects.toThrow("400")
  })

  it("is ended one way while the other goes on", async () => {
    const { connect } = await open()
    const { port } = await listenOn("127.0.0.1", (socket) => {
      const chunks: Buffer[] = []
      socket.on("data", (chunk) => chunks.push(chunk))
      socket.on("end", () => socket.end(`all of ${Buffer.concat(chunks).length}`))
    })
    const client = await connect(port)
    client.socket.send(Buffer.alloc(100_000))
    client.socket.send('{"type":"end"}')
    expect(await client.closed).toBe(1000)
    expect(client.text()).toBe("all of 100000")
    expect(client.said).toEqual([{ type: "end" }])
  })

  it("can be ended by the program first", async () => {
    const { connect } = await open()
    let heard = ""
    const { port } = await listenOn("127.0.0.1", (socket) => {
      socket.end("bye")
      socket.on("data", (chunk) => {
        heard += String(chunk)
      })
    })
    const client = await connect(port)
    await until(() => client.said.length === 1)
    client.socket.send(Buffer.from("still here"))
    await until(() => heard === "still here")
    client.socket.send('{"type":"end"}')
    expect(await client.closed).toBe(1000)
  })

  it("says when it is broken off, and breaks off when the client is gone or talks nonsense", async () => {
    const { connect } = await open()
    const { port } = await listenOn("127.0.0.1", (socket) =>
      socket.once("data", () => socket.resetAndDestroy()),
    )
    const reset = await connect(port)
    reset.socket.send(Buffer.from("x"))
    expect(await reset.closed).toBe(PORT_CLOSE.reset)

    const inside: Socket[] = []
    const quiet = await listenOn("127.0.0.1", (socket) => inside.push(socket.resume()))
    const [gone, wrong] = [await connect(quiet.port), await connect(quiet.port)]
    await until(() => inside.length === 2)
    gone.socket.terminate()
    wrong.socket.send("end")
    expect(await wrong.closed).toBe(PORT_CLOSE.badMessage)
    await until(() => inside.every((socket) => socket.readableEnded || socket.destroyed))
  })

  it("delivers all bytes that a client sent before it closed", async () => {
    const { connect } = await open()
    let bytes = 0
    let hasEnded = false
    const { port } = await listenOn("127.0.0.1", (socket) => {
      socket.on("data", (chunk) => {
        bytes += chunk.length
      })
      socket.on("end", () => {
        hasEnded = true
      })
    })
    const client = await connect(port)
    for (let sent = 0; sent < 8; sent++) client.socket.send(Buffer.alloc(MIB))
    client.socket.close(1000)
    await until(() => hasEnded)
    expect(bytes).toBe(8 * MIB)
  })

  it("holds up the program while the client does not read, and then passes everything, unchanged", async () => {
    const { connect } = await open()
    const chunk = Buffer.alloc(MIB, "0123456789abcdef")
    const hash = createHash("sha256")
    let written = 0
    const { port } = await listenOn("127.0.0.1", (socket) => {
      const write = () => {
        while (written < 64) {
          written++
          hash.update(chunk)
          if (!socket.write(chunk)) return void socket.once("drain", write)
        }
        socket.end()
      }
      write()
    })
    const client = await connect(port)
    client.socket.pause()
    expect(await standsStill(() => written)).toBeLessThan(32)
    const seen = createHash("sha256")
    client.socket.on("message", (data: Buffer, isBinary) => {
      if (isBinary) seen.update(data)
      else client.socket.send('{"type":"end"}')
    })
    client.socket.resume()
    expect(await client.closed).toBe(1000)
    expect(seen.digest("hex")).toBe(hash.digest("hex"))
  })

  it("is given up when the client is gone while the program reads nothing", async () => {
    const pings = new Set<() => void>()
    const after: Clock["after"] = (ms, call) => {
      if (ms !== PING_MS) return systemClock.after(ms, call)
      pings.add(call)
      return () => pings.delete(call)
    }
    const { connect } = await open({ ...systemClock, after })
    const inside: Socket[] = []
    const { port } = await listenOn("127.0.0.1", (socket) => inside.push(socket.pause()))
    const client = await connect(port)
    // More bytes than all buffers on the way hold.
    for (let sent = 0; sent < 32; sent++) client.socket.send(Buffer.alloc(MIB))
    await until(() => inside.length === 1)
    expect(await standsStill(() => client.socket.bufferedAmount)).toBeGreaterThan(0)
    client.socket.terminate()
    // Each ping schedules the next one, unless it finds the client gone.
    await until(() => {
      for (const ping of [...pings]) {
        pings.delete(ping)
        ping()
      }
      return pings.size === 0
    })
  })

  it("ends with the sandbox", async () => {
    const { connect } = await open()
    const { port } = await listenOn("127.0.0.1", (socket) => socket.resume())
    const client = await connect(port)
    await features?.close()
    expect(await client.closed).toBe(PORT_CLOSE.stopping)
  })
})

describe("the ports on which programs listen", () => {
  it("are listed with their addresses and the process that listens", async () => {
    const { list } = await open()
    const { port } = await listenOn("127.0.0.1", () => {})
    const name = expect.any(String)
    expect((await list()).find((each) => each.port === port)).toEqual({
      port,
      addresses: ["127.0.0.1"],
      process: { pid: process.pid, name },
    })
  })

  it("[R2.10] are told to every watcher when they open, within a second, and when they close", async () => {
    const { watch } = await open()
    const earlier = await listenOn("127.0.0.1", () => {})
    const [one, two] = [await watch(), await watch()]
    await until(() => one.said.length > 0 && two.said.length > 0)
    const [first] = one.said.map((message) => PortMessage.parse(message))
    expect(first?.type === "ports" && first.ports.map(({ port }) => port)).toContain(earlier.port)

    const beganAtMs = performance.now()
    const { server, port } = await listenOn("::1", () => {})
    const of = (client: typeof one, type: string) =>
      client.said.find((message) => message.type === type && message.port === port)
    await until(() => of(one, "opened"))
    const tookMs = performance.now() - beganAtMs
    expect(PortMessage.parse(of(one, "opened"))).toMatchObject({
      addresses: ["::1"],
      process: { pid: process.pid },
    })
    await until(() => of(two, "opened"))
    server.close()
    await until(() => of(one, "closed") && of(two, "closed"))
    // Ten times the most that a quiet machine takes.
    expect(tookMs).toBeLessThan(1_000)
  })
})
