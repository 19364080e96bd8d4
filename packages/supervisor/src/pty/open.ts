import { closeSync, constants, fchownSync, openSync } from "node:fs"
import { ReadStream } from "node:tty"
import { requireBinary } from "@lydell/node-pty/requireBinary.js"
import { keepFromChildren } from "../processes/kept-from-children.ts"
import type { User } from "../processes/user.ts"

export interface Size {
  readonly cols: number
  readonly rows: number
}

/** A pty that no program runs on yet. */
export interface OpenPty {
  /** What a program opens to write to it and to read from it: it belongs to the user. */
  readonly path: string
  /** Our end. It does not block. */
  readonly fd: number
  /** What the programs on it write. */
  readonly stream: ReadStream
  resize(size: Size): void
  /** From here on the stream ends when the last program on it does. */
  letGo(): void
  close(): void
}

/**
 * The library could start a program on it as well, but as another user only with our groups, in a directory
 * that we may enter, and on a terminal that is root's. So programs are started as all others are, and open the
 * pty themselves.
 */
export const openPty = ({ cols, rows }: Size, user: User | undefined): OpenPty => {
  const kernel = requireBinary("pty.node")
  const { master, slave, pty: path } = kernel.open(cols, rows)
  // Held open, so that the stream does not end before the program has come. Unlike the library's, the
  // descriptors that node opens are not for our children.
  const held = openSync(path, constants.O_RDWR | constants.O_NOCTTY)
  closeSync(slave)
  if (user !== undefined) fchownSync(held, user.uid, user.gid)
  const stream = new ReadStream(master)
  stream.once("close", keepFromChildren(master))
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
      // It may have ended in between.
      if (!stream.destroyed) kernel.resize(master, size.cols, size.rows)
    },
    letGo,
    close: () => {
      stream.destroy()
      letGo()
    },
  }
}
