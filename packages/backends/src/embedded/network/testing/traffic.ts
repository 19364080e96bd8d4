import { createSocket, type Socket } from "node:dgram"
import { EventEmitter, once } from "node:events"
import { connect, createServer, type Socket as NetSocket } from "node:net"

/** The time without an answer that counts as silence. An answer or a refusal comes at once, even on a busy machine. */
const SILENCE_MS = 3_000

export interface Target {
  readonly address: string
  readonly port: number
  readonly localAddress?: string
  /** The time without an answer that counts as silence. */
  readonly silenceMs?: number
}

interface Arrival {
  readonly text: string
  readonly from: string
  readonly port: number
}

const arrivals: Arrival[] = []
const staying: NetSocket[] = []
const arrival = new EventEmitter()

/**
 * Takes connections and packets on a port of every address, answers each, and remembers the packets. The connections
 * end with the answer, unless they are to stay.
 */
export const listen = async (where: {
  port: number
  host?: string
  name: string
  group?: string
  stays?: boolean
}): Promise<void> => {
  const { port, name, group, host = "0.0.0.0", stays = false } = where
  const server = createServer((socket) => {
    socket.on("error", () => {})
    socket.write(`${name} at ${socket.localAddress} hears ${socket.remoteAddress}`)
    if (stays) staying.push(socket)
    else socket.end()
  })
  server.listen(port, host)
  await once(server, "listening")
  const socket = createSocket({ type: host.includes(":") ? "udp6" : "udp4", reuseAddr: true })
  socket.bind(port, host)
  await once(socket, "listening")
  if (group !== undefined) socket.addMembership(group)
  socket.on("message", (message, { address, port }) => {
    arrivals.push({ text: message.toString(), from: address, port })
    arrival.emit("packet")
    socket.send(`${name} hears ${address}`, port, address)
  })
}

/** Waits for this packet, then returns all that have arrived. Packets that were sent before it have arrived before it. */
export const arrived = async (text: string): Promise<Arrival[]> => {
  const signal = AbortSignal.timeout(SILENCE_MS)
  while (!arrivals.some((packet) => packet.text === text)) await once(arrival, "packet", { signal })
  return arrivals.splice(0)
}

/** The other side's answer over TCP, or the error's code. */
export const dial = (target: Target): Promise<string> =>
  new Promise((resolve) => {
    const { address: host, port, localAddress, silenceMs = SILENCE_MS } = target
    const socket = connect({ host, port, ...(localAddress && { localAddress }) })
    socket.setEncoding("utf8").setTimeout(silenceMs)
    let heard = ""
    socket.on("data", (text) => {
      heard += text
    })
    socket.on("end", () => resolve(heard))
    socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    socket.on("timeout", () => {
      socket.destroy()
      resolve("silence")
    })
  })

const open = async (localAddress?: string): Promise<Socket> => {
  const socket = createSocket("udp4")
  socket.bind(0, localAddress)
  await once(socket, "listening")
  socket.setBroadcast(true)
  return socket
}

/** Sends a packet to each target, in this order. Does not tell whether a packet can leave at all. */
export const send = async (packets: (Target & { text: string })[]): Promise<void> => {
  for (const { address, port, text, localAddress } of packets) {
    const socket = await open(localAddress)
    await new Promise((done) => socket.send(text, port, address, done))
    socket.close()
  }
}

/** Sends packets from one socket to as many ports: each makes the kernels on its way track one more connection. */
export const flood = async (target: { address: string; packets: number }): Promise<void> => {
  const { address, packets } = target
  const socket = await open()
  for (let port = 1; port <= packets; port++) {
    await new Promise((done) => socket.send("flood", 10_000 + port, address, done))
  }
  socket.close()
}

/** Ends this side of the connections that stay: the other side may go on to send. */
export const endStaying = (): void => {
  for (const socket of staying.splice(0)) socket.end()
}

const held: NetSocket[] = []

/** Closes the connections that `hold` has opened. */
export const letGo = (): void => {
  for (const socket of held.splice(0)) socket.resetAndDestroy()
}

/** Writes to the connections that `hold` has opened, and counts those that are still open. */
export const useHeld = (): number => {
  const open = held.filter(({ destroyed }) => !destroyed)
  for (const socket of open) socket.write("x")
  return open.length
}

/** Opens connections that stay open, and counts how many of them got which answer. */
export const hold = async (
  target: Target & { readonly connections: number },
): Promise<Record<string, number>> => {
  const { address: host, port, connections } = target
  const count: Record<string, number> = {}
  for (let made = 0; made < connections; made++) {
    const socket = connect({ host, port, allowHalfOpen: true })
    held.push(socket)
    const outcome = await new Promise<string>((resolve) => {
      socket.once("connect", () => resolve("open"))
      socket.on("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    })
    count[outcome] = (count[outcome] ?? 0) + 1
  }
  return count
}

/** The other side's answer over UDP, or that there is none. */
export const ask = async ({ address, port, localAddress }: Target): Promise<string> => {
  const socket = await open(localAddress)
  try {
    socket.send("question", port, address)
    const signal = AbortSignal.timeout(SILENCE_MS)
    const [message, { address: from }] = await once(socket, "message", { signal })
    return `${message} from ${from}`
  } catch {
    return "silence"
  } finally {
    socket.close()
  }
}
