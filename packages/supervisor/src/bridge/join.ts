import type { Duplex } from "node:stream"

/**
 * Passes bytes both ways, each at the pace of its reader. The end of one direction is passed on while the other
 * continues. A broken connection breaks off the other.
 */
export const join = (one: Duplex, other: Duplex): void => {
  pass(one, other)
  pass(other, one)
}

const pass = (from: Duplex, to: Duplex): void => {
  from.on("error", () => {})
  from.once("close", () => {
    if (!from.readableEnded || !from.writableFinished) to.destroy()
  })
  if (from.destroyed) to.destroy()
  else from.pipe(to)
}
