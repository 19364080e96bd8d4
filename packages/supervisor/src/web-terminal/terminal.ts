import type { Socket } from "node:net"
import { type IPty, spawn } from "@lydell/node-pty"
import type { WebSocket } from "ws"
import { Input } from "../pty/input.ts"
import { endSession } from "./end-session.ts"
import { parseSize } from "./message.ts"

/** What a slow viewer may be behind: beyond it the program in the terminal waits. */
export const MAX_UNSENT_BYTES = 1024 * 1024
/**
 * What a program may leave unread of its input: beyond it the viewer is cut off. It is not made to wait, since
 * one that is not read from cannot be seen to leave.
 */
export const MAX_UNREAD_BYTES = 1024 * 1024

export interface Shell {
  readonly command: string
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

/** Close codes of a WebSocket: it ended as it should, and it was spoken to wrongly. */
const NORMAL = 1000
const BAD_MESSAGE = 1003

/**
 * A shell of its own for a viewer, which ends with it. Bytes pass as they are, both ways, in binary frames: a
 * character may be cut anywhere. Resolves when nothing of it runs any more.
 */
export const serveTerminal = async (viewer: WebSocket, shell: Shell): Promise<void> => {
  const { command, cwd, env } = shell
  const pty = spawn(command, [], { name: "xterm-256color", cwd, env: { ...env }, encoding: null })
  const closed = new Promise<void>((resolve) => viewer.once("close", () => resolve()))
  const exited = new Promise<void>((resolve) => pty.onExit(() => resolve()))
  show(pty, viewer)
  const { fd, _socket } = insideOf(pty)
  const input = new Input({ fd, isOpen: () => !_socket.destroyed })
  listen(pty, viewer, input)
  // It ends by its close.
  viewer.on("error", () => {})
  await Promise.race([closed, exited])
  input.close()
  // What the shell wrote last is read before it counts as ended, and is sent before the close.
  viewer.close(NORMAL, "the shell has ended")
  await endSession(pty.pid)
  _socket.destroy()
}

const show = (pty: IPty, viewer: WebSocket): void => {
  const goOn = () => {
    if (viewer.bufferedAmount <= MAX_UNSENT_BYTES / 2) pty.resume()
  }
  // Buffers, since no encoding was asked for.
  pty.onData((data: unknown) => {
    viewer.send(data as Buffer, { binary: true }, goOn)
    if (viewer.bufferedAmount > MAX_UNSENT_BYTES) pty.pause()
  })
}

const listen = (pty: IPty, viewer: WebSocket, input: Input): void => {
  viewer.on("message", (data: Buffer, isBinary) => {
    // What comes after the end has no reader.
    if (viewer.readyState !== viewer.OPEN) return
    if (isBinary) {
      input.write(data)
      if (input.waitingBytes > MAX_UNREAD_BYTES) viewer.terminate()
      return
    }
    const size = parseSize(data.toString("utf8"))
    if (size === undefined) viewer.close(BAD_MESSAGE, "a size is COLSxROWS")
    else resize(pty, size)
  })
}

/** It may have ended in between. */
const resize = (pty: IPty, { cols, rows }: { cols: number; rows: number }): void => {
  try {
    pty.resize(cols, rows)
  } catch {}
}

/** What the library does not show in its types: the pty itself. The version is pinned. */
const insideOf = (pty: IPty) => pty as unknown as { readonly fd: number; readonly _socket: Socket }
