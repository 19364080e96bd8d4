import { once } from "node:events"
import { connect, createServer, type Socket } from "node:net"

export interface CuttingProxy {
  /** Cuts every connection now. */
  readonly cut: () => void
  readonly close: () => void
}

/** Passes bytes on between two unix sockets, and cuts each connection after a random number of them, either way. */
export const startCuttingProxy = async (
  from: string,
  to: string,
  random: () => number,
  maxBytes: number,
): Promise<CuttingProxy> => {
  const sockets = new Set<Socket>()
  const server = createServer((near) => {
    const far = connect(to)
    const both = [near, far]
    const end = () => {
      for (const socket of both) {
        socket.destroy()
        sockets.delete(socket)
      }
    }
    for (const socket of both) {
      sockets.add(socket)
      socket.on("error", end).on("close", end)
    }
    pass(near, far, random() * maxBytes, end)
    pass(far, near, random() * maxBytes, end)
  })
  server.listen(from)
  await once(server, "listening")
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    cut,
    close: () => {
      server.close()
      cut()
    },
  }
}

const pass = (from: Socket, to: Socket, budget: number, end: () => void): void => {
  let left = Math.floor(budget)
  from.on("data", (bytes: Buffer) => {
    // The last chunk is passed on in part, so that messages and frames break anywhere.
    to.write(bytes.subarray(0, left))
    left -= bytes.length
    if (left <= 0) end()
  })
}
