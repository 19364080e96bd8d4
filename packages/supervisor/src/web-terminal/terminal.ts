import type { Socket } from "node:net"
import { type IPty, spawn } from "@lydell/node-pty"
import type { WebSocket } from "ws"
import { Input } from "../pty/input.ts"
import { endSession } from "./end-session.ts"
import { parseSize } from "./message.ts"

/** Limit of the bytes that a slow viewer may be behind. Beyond it the program in the terminal waits. */
export const MAX_UNSENT_BYTES = 1024 * 1024
/**
 * Limit of input that the program has not read. Beyond it the viewer is cut off. It cannot be made to wait, since the
 * leaving of a viewer that is not read from would not be noticed.
 */
export const MAX_UNREAD_BYTES = 1024 * 1024

export interface Shell {
  readonly command: string
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

/** Close codes of the WebSocket: a normal end, and an invalid message. */
const NORMAL = 1000
const BAD_MESSAGE = 1003

/**
 * Runs a shell for a viewer, which ends with it. Bytes pass unchanged both ways, in binary frames: a character may be
 * cut anywhere. Resolves when no process of the shell runs any more.
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
  // A "close" event follows every error.
  viewer.on("error", () => {})
  await Promise.race([closed, exited])
  input.close()
  // The shell's last output is read before it counts as ended, and is sent before the close.
  viewer.close(NORMAL, "the shell has ended")
  await endSession(pty.pid)
  _socket.destroy()
}

const show = (pty: IPty, viewer: WebSocket): void => {
  const goOn = () => {
    if (viewer.bufferedAmount <= MAX_UNSENT_BYTES / 2) pty.resume()
  }
  // The data are buffers, since no encoding was asked for.
  pty.onData((data: unknown) => {
    viewer.send(data as Buffer, { binary: true }, goOn)
    if (viewer.bufferedAmount > MAX_UNSENT_BYTES) pty.pause()
  })
}

const listen = (pty: IPty, viewer: WebSocket, input: Input): void => {
  viewer.on("message", (data: Buffer, isBinary) => {
    // Input after the end has no reader.
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

/** Resizes the pty, which may have ended meanwhile. */
const resize = (pty: IPty, { cols, rows }: { cols: number; rows: number }): void => {
  try {
    pty.resize(cols, rows)
  } catch {}
}

/** The library's own pty, which its types do not show. The version is pinned. */
const insideOf = (pty: IPty) => pty as unknown as { readonly fd: number; readonly _socket: Socket }
