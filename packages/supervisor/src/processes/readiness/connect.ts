import { connect, type NetConnectOpts } from "node:net"

/** Whether a connection is accepted there. The connection is closed at once. */
export const accepts = (where: NetConnectOpts, signal: AbortSignal): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(where)
    const end = (isReady: boolean) => {
      signal.removeEventListener("abort", giveUp)
      socket.destroy()
      resolve(isReady)
    }
    const giveUp = () => end(false)
    socket.once("connect", () => end(true))
    socket.once("error", giveUp)
    signal.addEventListener("abort", giveUp, { once: true })
  })
