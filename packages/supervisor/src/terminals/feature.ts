import { BerthError } from "@berth/protocol/errors"
import { randomId } from "@berth/protocol/random-id"
import {
  MAX_ENDED_TERMINALS,
  MAX_TERMINAL_VIEWERS,
  MAX_TERMINALS,
} from "@berth/protocol/terminal-limits"
import type { TerminalId, TerminalStart } from "@berth/protocol/terminals"
import { readJson, sendJson } from "../features/body.ts"
import type { Called, Feature } from "../features/feature.ts"
import type { FeatureParts } from "../features/parts.ts"
import type { Uses } from "../features/uses.ts"
import { isDirectory, workingDirectory } from "../features/working-directory.ts"
import { terminalStart } from "./parse.ts"
import { shellOf } from "./program.ts"
import { Terminal } from "./terminal.ts"

export const terminalsFeature = (
  parts: FeatureParts,
  uses: Uses,
  maxRunning = MAX_TERMINALS,
): Feature => {
  const terminals = new Map<string, Terminal>()
  const starting = new Set<Promise<Terminal>>()
  let isClosed = false

  const find = ({ params }: Called): Terminal => {
    const terminal = terminals.get(params.id ?? "")
    if (terminal === undefined)
      throw new BerthError("terminals.unknown", `there is no terminal ${params.id}`)
    return terminal
  }
  const count = () => [...terminals.values()].filter(({ isRunning }) => isRunning).length

  const start = async (wanted: TerminalStart): Promise<Terminal> => {
    if (isClosed) throw new BerthError("cancelled", "the sandbox is going down")
    if (count() + starting.size >= maxRunning) throw tooMany("terminals", maxRunning)
    const spec = specOf(wanted, parts)
    const started = Terminal.start(spec, { ...parts, uses })
    starting.add(started)
    try {
      const terminal = await started
      forgetEnded(terminals)
      terminals.set(spec.id, terminal)
      return terminal
    } finally {
      starting.delete(started)
    }
  }

  return {
    http: [
      {
        method: "POST",
        path: "/terminals",
        handle: async ({ request, response }) => {
          const wanted = await readJson<TerminalStart>(request, terminalStart)
          sendJson(response, 201, (await start(wanted)).info())
        },
      },
      {
        method: "GET",
        path: "/terminals",
        handle: async ({ response }) =>
          sendJson(response, 200, {
            terminals: [...terminals.values()].map((terminal) => terminal.info()),
          }),
      },
      {
        method: "GET",
        path: "/terminals/:id",
        handle: async (call) => sendJson(call.response, 200, find(call).info()),
      },
      {
        method: "DELETE",
        path: "/terminals/:id",
        handle: async (call) => {
          const terminal = find(call)
          await terminal.end()
          terminals.delete(call.params.id ?? "")
          sendJson(call.response, 200, terminal.info())
        },
      },
    ],
    sockets: [
      {
        path: "/terminals/:id/attach",
        open: async (call) => {
          const terminal = find(call)
          const from = offsetOf(call.query.get("from"), terminal)
          const viewers = [...terminals.values()].map((each) => each.info().viewers)
          if (viewers.reduce((sum, some) => sum + some, 0) >= MAX_TERMINAL_VIEWERS)
            throw tooMany("viewers", MAX_TERMINAL_VIEWERS)
          return (websocket) => terminal.attach(websocket, from)
        },
      },
    ],
    close: async () => {
      isClosed = true
      await Promise.allSettled(starting)
      await Promise.all([...terminals.values()].map((terminal) => terminal.end()))
    },
  }
}

const specOf = (wanted: TerminalStart, parts: FeatureParts) => {
  const { environment } = parts
  const cwd = workingDirectory(wanted.cwd, parts)
  if (!isDirectory(cwd))
    throw new BerthError("process.no_directory", `there is no directory ${cwd}`, {
      details: { cwd },
    })
  const look = { TERM: "xterm-256color", COLORTERM: "truecolor" }
  const env = { ...environment, ...look, ...wanted.env }
  const { command = [shellOf(env)], cols, rows } = wanted
  return { id: randomId("term") as TerminalId, command, cwd, env, cols, rows }
}

/** Parses the offset. Default: the start of the kept output. */
const offsetOf = (text: string | null, terminal: Terminal): number => {
  const { from, to } = terminal.info().output
  if (text === null) return from
  const offset = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN
  if (offset <= to) return offset
  throw new BerthError("input.invalid", `from is not a number of bytes up to ${to}`)
}

/** Forgets ended terminals beyond the limit, the oldest first. */
const forgetEnded = (terminals: Map<string, Terminal>): void => {
  const ended = [...terminals].filter(([, { isRunning }]) => !isRunning)
  for (const [id] of ended.slice(0, Math.max(0, ended.length - MAX_ENDED_TERMINALS + 1)))
    terminals.delete(id)
}

const tooMany = (what: string, limit: number): BerthError =>
  new BerthError("terminals.too_many", `there are ${limit} ${what} already`, { details: { limit } })
