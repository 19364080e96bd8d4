import { type Port, PortList, PortMessage } from "@berth/protocol/ports"
import { type CallOptions, call, parseJson } from "./call.ts"
import type { Place } from "./place.ts"
import { notBerth } from "./reply-error.ts"
import { openSocket } from "./socket.ts"

/** One TCP connection to a port in a sandbox. */
export interface PortConnection {
  /** What comes from there, to be read once; it ends when the other side sends no more. */
  readonly output: AsyncIterable<Uint8Array>
  /** Resolves when there is room for more. */
  write(bytes: Uint8Array): Promise<void>
  /** Sends no more; what comes is still read. */
  end(): Promise<void>
  /** Ends both directions. Twice is as good as once. */
  close(): void
}

export interface Ports {
  /** Those that something listens on. */
  list(options?: CallOptions): Promise<Port[]>
  /** First all that there are, then each as it opens or closes, until the loop is left or the signal fires. */
  watch(options?: CallOptions): AsyncIterable<PortMessage>
  /** Also to one that is bound to the sandbox's own loopback. */
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
        // A text is the one that says that no more comes.
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
