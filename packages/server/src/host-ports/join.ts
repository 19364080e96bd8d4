import type { Socket } from "node:net"
import { collectOften } from "@berth/host/collect-often"

/**
 * Passes bytes both ways, each at the pace of its reader. An end is passed on and the other direction goes on; a break
 * of one connection breaks off the other.
 */
export const join = (one: Socket, other: Socket): void => {
  pass(one, other)
  pass(other, one)
}

const pass = (from: Socket, to: Socket): void => {
  from.on("error", () => {})
  from.once("close", () => {
    if (!from.readableEnded || !from.writableFinished) to.destroy()
  })
  if (from.destroyed) {
    to.destroy()
    return
  }
  collectOften(from)
  from.pipe(to)
}
