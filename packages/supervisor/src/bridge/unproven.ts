import type { Server } from "node:http"
import type { Socket } from "node:net"

/** Connections that may be open at a time without having brought the token. Whoever has it brings it with the first words. */
const MAX_UNPROVEN = 128

/**
 * Keeps connections without the token few: a further one ends the oldest. Where the socket is a port, others reach it, and would hold all
 * connections that there are. Returns what is told of each that has brought the token.
 */
export const boundUnproven = (server: Server): ((socket: Socket) => void) => {
  const unproven = new Set<Socket>()
  server.on("connection", (socket: Socket) => {
    unproven.add(socket)
    socket.once("close", () => unproven.delete(socket))
    const [oldest] = unproven
    if (unproven.size > MAX_UNPROVEN) oldest?.destroy()
  })
  return (socket) => unproven.delete(socket)
}
