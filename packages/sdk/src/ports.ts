import { type Port, PortList, PortMessage } from "@berth/protocol/ports"
import { type CallOptions, call, parseJson } from "./call.ts"
import type { Place } from "./place.ts"
import { notBerth } from "./reply-error.ts"
import { openSocket } from "./socket.ts"

/** A TCP connection to a port in a sandbox. */
export interface PortConnection {
  /** The received bytes, to be read once; they end when the other side sends no more. */
  readonly output: AsyncIterable<Uint8Array>
  /** Resolves when there is room for more. */
  write(bytes: Uint8Array): Promise<void>
  /** Ends the sending side; the other side is still read. */
  end(): Promise<void>
  /** Ends both directions. May be called twice. */
  close(): void
}

export interface Ports {
  /** The ports that something listens on. */
  list(options?: CallOptions): Promise<Port[]>
  /**
   * Watches ports: first all that there are, then each as it opens or closes, until the loop is left or the signal
   * fires.
   */
  watch(options?: CallOptions): AsyncIterable<PortMessage>
  /** Connects to a port, also to one that is bound to the sandbox's own loopback. */
  connect(port: number, options?: CallOptions): Promise<PortConnection>
}

export const portsOf = ({ connection, at }: Place): Ports => ({
  list: async (options) =>
    (await call(connection, { path: at("/ports") }, PortList, options)).ports,
  watch: async function* (options) {
    const socket = await openSocket(connection, at("/ports/watch"), options)
    try {
      for (;;) {
        const frame = await socket.next()
        if (frame === undefined) return
        const parsed = PortMessage.safeParse(parseJson(String(frame)))
        if (!parsed.success) throw notBerth(connection.url, 0)
        yield parsed.data
      }
    } finally {
      socket.close()
    }
  },
  connect: async (port, options) => {
    const socket = await openSocket(connection, at(`/ports/${port}/connect`), options)
    const output = async function* (): AsyncGenerator<Uint8Array> {
      for (;;) {
        const frame = await socket.next()
        // The only text frame says that no more data comes.
        if (frame === undefined || typeof frame === "string") return
        yield frame
      }
    }
    return {
      output: output(),
      write: (bytes) => socket.send(bytes),
      end: () => socket.send(JSON.stringify({ type: "end" })),
      close: () => socket.close(),
    }
  },
})
