import { SCROLLBACK_BYTES, TERMINAL_CLOSE } from "@berth/protocol/terminal-limits"
import type { TerminalExit, TerminalId, TerminalInfo } from "@berth/protocol/terminals"
import type { WebSocket } from "ws"
import type { ActivityTracker } from "../features/activity-tracker.ts"
import { type Clock, pause } from "../processes/clock.ts"
import { type Launched, launch } from "../processes/launch.ts"
import { Output } from "../processes/output/output.ts"
import { ByteRing } from "../processes/output/ring.ts"
import { endTree } from "../processes/tree/end.ts"
import type { Grove, ProcessTree } from "../processes/tree/tree.ts"
import type { User } from "../processes/user.ts"
import { Input } from "../pty/input.ts"
import { type OpenPty, openPty, type Size } from "../pty/open.ts"
import { parseClientMessage } from "./parse.ts"
import { onPty } from "./program.ts"
import { Viewer } from "./viewer.ts"

/** Time from SIGHUP to SIGKILL for the processes of a terminal that is closed. */
export const HANG_UP_GRACE_MS = 1_000
/** The program waits for the fastest viewer when every viewer is this far behind. One more read still has room. */
const HOLD_BYTES = SCROLLBACK_BYTES / 2
/** Limit of typed bytes that the program has not read. A viewer that types more is cut off. */
export const MAX_UNREAD_BYTES = 1024 * 1024
/** Time for the last output. A program that outlives the shell in a session of its own may hold the pty open. */
const LAST_WORDS_MS = 500

export interface TerminalParts {
  readonly clock: Clock
  readonly user: User | undefined
  readonly tracker: ActivityTracker
}

export interface TerminalSpec extends Size {
  readonly id: TerminalId
  readonly command: readonly string[]
  readonly cwd: string
  readonly env: Readonly<Record<string, string>>
}

/** A program on a pty, with its last output and its viewers. */
export class Terminal {
  readonly #spec: TerminalSpec
  readonly #clock: Clock
  readonly #tracker: ActivityTracker
  readonly #pty: OpenPty
  readonly #launched: Launched
  readonly #scrollback = new ByteRing(SCROLLBACK_BYTES)
  readonly #output: Output
  readonly #input: Input
  readonly #viewers = new Set<Viewer>()
  readonly #startedAt = new Date()
  #size: Size
  #exit: TerminalExit | undefined
  #isLeaderGone = false
  #held: PromiseWithResolvers<void> | undefined
  /** Resolves when no process of the terminal's session runs any more. */
  readonly ended: Promise<void>

  static async start(spec: TerminalSpec, parts: TerminalParts): Promise<Terminal> {
    const { user } = parts
    const pty = openPty(spec, user)
    try {
      const launched = await launch(
        {
          command: onPty({ ...spec, path: pty.path }),
          env: spec.env,
          cwd: "/",
          user,
          origin: "terminal",
        },
        { conversation: false, signal: new AbortController().signal },
      )
      return new Terminal(spec, parts, pty, launched)
    } catch (thrown) {
      pty.close()
      throw thrown
    }
  }

  private constructor(
    spec: TerminalSpec,
    { clock, tracker }: TerminalParts,
    pty: OpenPty,
    launched: Launched,
  ) {
    this.#spec = spec
    this.#size = spec
    this.#clock = clock
    this.#tracker = tracker
    this.#pty = pty
    this.#launched = launched
    this.#input = new Input({ fd: pty.fd, isOpen: () => !pty.stream.destroyed })
    this.#output = new Output([pty.stream])
    this.#output.listen((chunk) => this.#hear(chunk))
    // Output from before the program took the pty: that it could not.
    launched.output.listen((chunk) => this.#hear(chunk))
    this.#tellViewers()
    this.ended = this.#tend()
  }

  get isRunning(): boolean {
    return this.#exit === undefined
  }

  info(): TerminalInfo {
    const { id, command, cwd } = this.#spec
    return {
      id,
      pid: this.#launched.pid,
      command: [...command],
      cwd,
      cols: this.#size.cols,
      rows: this.#size.rows,
      startedAt: this.#startedAt.toISOString(),
      exit: this.#exit ?? null,
      viewers: this.#viewers.size,
      output: { from: this.#scrollback.firstOffset, to: this.#scrollback.writtenBytes },
    }
  }

  /** Shows the output from that byte on, or as much of it as is kept. */
  attach(socket: WebSocket, from: number): void {
    const scrollback = this.#scrollback
    const offset = Math.max(from, scrollback.firstOffset)
    const viewer = new Viewer(socket, offset, {
      clock: this.#clock,
      scrollback,
      onProgress: () => {
        if (viewer.isOver && this.#viewers.delete(viewer)) this.#tellViewers()
        this.#goOn()
      },
    })
    this.#viewers.add(viewer)
    this.#tellViewers()
    const { cols, rows } = this.#size
    viewer.say({ type: "attached", from: offset, missed: offset - from, cols, rows })
    socket.on("message", (data: Buffer, isBinary) => {
      if (viewer.isOver || !this.isRunning) return
      if (isBinary) this.#type(data, viewer)
      else this.#obey(data.toString("utf8"), viewer)
    })
    if (this.#exit === undefined) viewer.show()
    else viewer.exit(this.#exit)
  }

  /** Ends everything that came from the terminal. */
  async end(): Promise<void> {
    const { tree } = this.#launched
    // Shells ignore SIGTERM.
    tree.signal(await tree.find(), "SIGHUP")
    const { left } = await endTree(tree, { clock: this.#clock, graceMs: HANG_UP_GRACE_MS })
    if (left.length === 0) await this.ended
    for (const viewer of this.#viewers)
      viewer.close(TERMINAL_CLOSE.removed, "the terminal was removed")
    this.#close()
  }

  async #tend(): Promise<void> {
    const { exited, tree } = this.#launched
    const exit = await exited
    this.#isLeaderGone = true
    this.#pty.letGo()
    this.#goOn()
    const enough = new AbortController()
    await Promise.race([this.#output.ended, pause(this.#clock, LAST_WORDS_MS, enough.signal)])
    enough.abort()
    this.#exit = { status: exit.status, signal: exit.signal }
    this.#tracker.terminalEnded(this.#spec.id)
    this.#close()
    for (const viewer of this.#viewers) viewer.exit(this.#exit)
    await endTree(sessionIn(tree), { clock: this.#clock, graceMs: HANG_UP_GRACE_MS })
  }

  #tellViewers(): void {
    if (this.isRunning) this.#tracker.setViewers(this.#spec.id, this.#viewers.size)
  }

  #close(): void {
    this.#input.close()
    this.#output.close()
    this.#launched.output.close()
    this.#pty.close()
  }

  #hear(chunk: Buffer): Promise<void> | undefined {
    this.#scrollback.write(chunk)
    for (const viewer of this.#viewers) viewer.show()
    if (!this.#isHeldUp()) return undefined
    this.#held ??= Promise.withResolvers()
    return this.#held.promise
  }

  /** Whether the program has to wait. Without viewers it does not. */
  #isHeldUp(): boolean {
    if (this.#isLeaderGone || this.#viewers.size === 0) return false
    return [...this.#viewers].every(({ behindBytes }) => behindBytes > HOLD_BYTES)
  }

  #goOn(): void {
    if (this.#held === undefined || this.#isHeldUp()) return
    this.#held.resolve()
    this.#held = undefined
  }

  #type(bytes: Buffer, viewer: Viewer): void {
    this.#input.write(bytes)
    if (this.#input.waitingBytes > MAX_UNREAD_BYTES)
      viewer.close(TERMINAL_CLOSE.notRead, "the program does not read what is typed")
  }

  #obey(text: string, viewer: Viewer): void {
    const message = parseClientMessage(text)
    if (message === undefined) {
      viewer.close(TERMINAL_CLOSE.badMessage, "it sent what is no message")
      return
    }
    const { cols, rows } = message
    this.#size = { cols, rows }
    this.#pty.resize(this.#size)
    for (const each of this.#viewers) each.say({ type: "resized", cols, rows })
  }
}

/** The members of a tree that are still in the root's session. */
const sessionIn = (tree: ProcessTree): Grove => ({
  find: async () => (await tree.find()).filter(({ sessionId }) => sessionId === tree.root.pid),
  signal: (entries, signal) => tree.signal(entries, signal),
})
