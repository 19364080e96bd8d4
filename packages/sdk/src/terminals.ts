import {
  TerminalExit,
  TerminalInfo,
  TerminalList,
  TerminalServerMessage,
  type TerminalStart,
} from "@berth/protocol/terminals"
import { type CallOptions, call } from "./call.ts"
import type { Place } from "./place.ts"
import { notBerth } from "./reply-error.ts"
import { openSocket, type Socket } from "./socket.ts"
import { untilExit } from "./until-exit.ts"

/** A view of a terminal. */
export interface TerminalView {
  readonly id: TerminalInfo["id"]
  /** The position of the first byte of `output`; a viewer that counts bytes can attach again where it was. */
  readonly from: number
  /** The program's output, to be read once; a character may be cut between two pieces. */
  readonly output: AsyncIterable<Uint8Array>
  /** The end of the program, once all output was read. */
  readonly exit: Promise<TerminalExit>
  write(bytes: Uint8Array | string): Promise<void>
  resize(size: { readonly cols: number; readonly rows: number }): Promise<void>
  /** Detaches; the terminal goes on. May be called twice. */
  close(): void
}

/** The terminals of a sandbox: programs on a pty, which go on when nobody looks. */
export interface Terminals {
  /** Starts a terminal and attaches to it. */
  create(start: TerminalStart, options?: CallOptions): Promise<TerminalView>
  attach(id: string, options?: CallOptions & { readonly from?: number }): Promise<TerminalView>
  list(options?: CallOptions): Promise<TerminalInfo[]>
  get(id: string, options?: CallOptions): Promise<TerminalInfo>
  /** Ends a terminal with everything that came from it. */
  kill(id: string, options?: CallOptions): Promise<TerminalInfo>
}

/** A stubborn process has its grace period before it is killed. */
const KILL_DEADLINE_MS = 60_000

export const terminalsOf = ({ connection, at }: Place): Terminals => {
  const attach: Terminals["attach"] = async (id, { from, ...options } = {}) => {
    const query = new URLSearchParams(from === undefined ? {} : { from: String(from) })
    const socket = await openSocket(connection, at(`${pathOf(id)}/attach`, query), options)
    return await look(connection.url, id as TerminalInfo["id"], socket)
  }
  return {
    attach,
    create: async (start, options) => {
      const ask = { method: "POST", path: at("/terminals"), json: start } as const
      const { id } = await call(connection, ask, TerminalInfo, options)
      return await attach(id, options)
    },
    list: async (options) =>
      (await call(connection, { path: at("/terminals") }, TerminalList, options)).terminals,
    get: (id, options) => call(connection, { path: at(pathOf(id)) }, TerminalInfo, options),
    kill: (id, options) => {
      const ask = { method: "DELETE", path: at(pathOf(id)) } as const
      return call(connection, ask, TerminalInfo, { deadlineMs: KILL_DEADLINE_MS, ...options })
    },
  }
}

const pathOf = (id: string): string => `/terminals/${encodeURIComponent(id)}`

const look = async (url: string, id: TerminalInfo["id"], socket: Socket): Promise<TerminalView> => {
  const { exit, read } = untilExit<TerminalServerMessage, TerminalExit>(
    { url, socket },
    TerminalServerMessage,
    "the terminal",
  )
  const first = await read()
  if (first instanceof Uint8Array || first.type !== "attached") {
    socket.close()
    throw notBerth(url, 0)
  }
  const output = async function* (): AsyncGenerator<Uint8Array> {
    for (;;) {
      const message = await read()
      if (message instanceof Uint8Array) yield message
      else if (message.type === "exit") {
        exit.resolve(TerminalExit.parse(message))
        socket.close()
        return
      }
    }
  }
  return {
    id,
    from: first.from,
    output: output(),
    exit: exit.promise,
    write: (bytes) =>
      socket.send(typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes),
    resize: ({ cols, rows }) => socket.send(JSON.stringify({ type: "resize", cols, rows })),
    close: () => socket.close(),
  }
}
