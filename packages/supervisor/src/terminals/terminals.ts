import { BerthError } from "@berth/protocol/errors"
import {
  MAX_ENDED_TERMINALS,
  MAX_TERMINAL_VIEWERS,
  MAX_TERMINALS,
} from "@berth/protocol/terminal-limits"
import type { TerminalId, TerminalInfo, TerminalStart } from "@berth/protocol/terminals"
import type { ActivityTracker } from "../features/activity-tracker.ts"
import type { FeatureParts } from "../features/parts.ts"
import { isDirectory, workingDirectory } from "../features/working-directory.ts"
import { shellOf } from "./program.ts"
import { Terminal } from "./terminal.ts"

/** The terminals that run, and the last ones that have ended. */
export class Terminals {
  readonly #parts: FeatureParts
  readonly #tracker: ActivityTracker
  readonly #maxRunning: number
  readonly #terminals = new Map<string, Terminal>()
  readonly #starting = new Set<Promise<Terminal>>()
  #isClosed = false

  constructor(parts: FeatureParts, tracker: ActivityTracker, maxRunning = MAX_TERMINALS) {
    this.#parts = parts
    this.#tracker = tracker
    this.#maxRunning = maxRunning
  }

  async start(wanted: TerminalStart): Promise<Terminal> {
    if (this.#isClosed) throw new BerthError("cancelled", "the sandbox is going down")
    if (this.#runningCount + this.#starting.size >= this.#maxRunning)
      throw tooMany("terminals", this.#maxRunning)
    const spec = specOf(wanted, this.#parts)
    const started = Terminal.start(spec, { ...this.#parts, tracker: this.#tracker })
    this.#starting.add(started)
    try {
      const terminal = await started
      this.#forgetEnded()
      this.#terminals.set(spec.id, terminal)
      return terminal
    } finally {
      this.#starting.delete(started)
    }
  }

  find(id: string): Terminal {
    const terminal = this.#terminals.get(id)
    if (terminal === undefined)
      throw new BerthError("terminals.unknown", `there is no terminal ${id}`)
    return terminal
  }

  /** Finds a terminal for one more viewer. */
  findForViewer(id: string): Terminal {
    const terminal = this.find(id)
    const viewers = this.list().reduce((sum, each) => sum + each.viewers, 0)
    if (viewers >= MAX_TERMINAL_VIEWERS) throw tooMany("viewers", MAX_TERMINAL_VIEWERS)
    return terminal
  }

  list(): TerminalInfo[] {
    return [...this.#terminals.values()].map((terminal) => terminal.info())
  }

  /** Ends a terminal with everything that came from it, and forgets it. */
  async remove(id: string): Promise<TerminalInfo> {
    const terminal = this.find(id)
    await terminal.end()
    this.#terminals.delete(id)
    return terminal.info()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.allSettled(this.#starting)
    await Promise.all([...this.#terminals.values()].map((terminal) => terminal.end()))
  }

  get #runningCount(): number {
    return [...this.#terminals.values()].filter(({ isRunning }) => isRunning).length
  }

  /** Forgets ended terminals beyond the limit, the oldest first. */
  #forgetEnded(): void {
    const ended = [...this.#terminals].filter(([, { isRunning }]) => !isRunning)
    for (const [id] of ended.slice(0, Math.max(0, ended.length - MAX_ENDED_TERMINALS + 1)))
      this.#terminals.delete(id)
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
  return { id: newTerminalId(), command, cwd, env, cols, rows }
}

const tooMany = (what: string, limit: number): BerthError =>
  new BerthError("terminals.too_many", `there are ${limit} ${what} already`, { details: { limit } })

const LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"

const newTerminalId = (): TerminalId => {
  const bytes = crypto.getRandomValues(new Uint8Array(20))
  return `term-${Array.from(bytes, (byte) => LETTERS[byte % LETTERS.length]).join("")}` as TerminalId
}
