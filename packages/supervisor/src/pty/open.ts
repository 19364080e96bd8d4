import { closeSync, constants, fchownSync, openSync } from "node:fs"
import { ReadStream } from "node:tty"
import { requireBinary } from "@lydell/node-pty/requireBinary.js"
import { hideFromChildren } from "../processes/hidden-descriptors.ts"
import type { User } from "../processes/user.ts"

export interface Size {
  readonly cols: number
  readonly rows: number
}

/** A pty on which no program runs yet. */
export interface OpenPty {
  /** The path of the device that a program opens to read and write. It belongs to the user. */
  readonly path: string
  /** Our end's descriptor, non-blocking. */
  readonly fd: number
  /** The output of the programs on the pty. */
  readonly stream: ReadStream
  resize(size: Size): void
  /** Releases our hold: from here on the stream ends with the last program on it. */
  letGo(): void
  close(): void
}

/**
 * Opens a pty. The library could also start a program on it, but as another user only with our groups, in a directory
 * that we may enter, and on a terminal that belongs to root. So programs are started as all others are, and open the
 * pty themselves.
 */
export const openPty = ({ cols, rows }: Size, user: User | undefined): OpenPty => {
  const kernel = requireBinary("pty.node")
  const { master, slave, pty: path } = kernel.open(cols, rows)
  // Held open, so that the stream does not end before the program has opened it. Descriptors that node opens, unlike
  // the library's, are not inherited by our children.
  const held = openSync(path, constants.O_RDWR | constants.O_NOCTTY)
  closeSync(slave)
  if (user !== undefined) fchownSync(held, user.uid, user.gid)
  const stream = new ReadStream(master)
  stream.once("close", hideFromChildren(master))
  let isHeld = true
  const letGo = () => {
    if (isHeld) closeSync(held)
    isHeld = false
  }
  return {
    path,
    fd: master,
    stream,
    resize: (size) => {
      // The pty may have ended meanwhile.
      if (!stream.destroyed) kernel.resize(master, size.cols, size.rows)
    },
    letGo,
    close: () => {
      stream.destroy()
      letGo()
    },
  }
}
