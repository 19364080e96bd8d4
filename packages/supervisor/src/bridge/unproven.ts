import type { Server } from "node:http"
import type { Socket } from "node:net"

/**
 * Connections that may be open at a time without having brought the token, half of all that may be open. Whoever has it brings it with the
 * first words, but hundreds of commands can begin at once.
 */
const MAX_UNPROVEN = 1_024

/**
 * Keeps connections to a port without the token few: a further one ends the oldest. Others reach a port, and would hold all
 * connections that there are; a socket in a directory of root's they do not. Returns what is told of each that has brought the token.
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
