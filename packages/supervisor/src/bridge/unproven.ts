import type { Server } from "node:http"
import type { Socket } from "node:net"

/**
 * Limit of open connections that have not sent the token yet, half of all that may be open. A client with the token
 * sends it at once, but hundreds of commands can begin at the same time.
 */
const MAX_UNPROVEN = 1_024

/**
 * Limits the connections to a port that have not sent the token: a further one ends the oldest. Other programs can
 * reach a port and could take all connections, unlike a socket in a directory of root's. Returns a function to call
 * with a socket that has sent the token.
 */
export const boundUnproven = (server: Server): ((socket: Socket) => void) => {
  const unproven = new Set<Socket>()
  server.on("connection", (socket: Socket) => {
    if (socket.remoteAddress === undefined) return
    unproven.add(socket)
    socket.once("close", () => unproven.delete(socket))
    const [oldest] = unproven
    if (unproven.size > MAX_UNPROVEN) oldest?.destroy()
  })
  return (socket) => unproven.delete(socket)
}
