import { COMMAND_CHANNEL, MAX_COMMAND_FRAME_BYTES } from "@berth/protocol/command-limits"
import type { CommandStart } from "@berth/protocol/commands"
import { BerthError } from "@berth/protocol/errors"
import type { FormOf } from "@berth/protocol/form"
import type { RawData, WebSocket } from "ws"
import { checked } from "../checks/check.ts"
import { commandClientMessage, commandStart } from "../checks/forms/commands.ts"
import { parseJson } from "../features/body.ts"
import type { Clock } from "../processes/clock.ts"
import type { Command } from "./command.ts"

/** Time limit from a connection to its start frame. */
export const START_DEADLINE_MS = 10_000
/** Interval of pings while a connection is paused: without sending, its end would not be noticed. */
const PING_WHILE_HELD_MS = 500

interface Frame {
  readonly data: Buffer
  readonly isBinary: boolean
}

/** Reads a client's frames: perhaps a start, then standard input, its end, and signals. */
export class ClientInput {
  readonly #websocket: WebSocket
  /** Frames that came before there was a command. The connection is paused by then, so they are few. */
  readonly #early: Frame[] = []
  #take: (frame: Frame) => void = (frame) => void this.#early.push(frame)

  constructor(websocket: WebSocket) {
    this.#websocket = websocket
    websocket.on("message", (data: RawData, isBinary: boolean) =>
      this.#take({ data: data as Buffer, isBinary }),
    )
  }

  /** Pauses the connection until there is a command. */
  hold(): void {
    this.#websocket.pause()
  }

  /** Reads the first frame. The connection is paused then, until there is a command. */
  start(clock: Clock, signal: AbortSignal): Promise<CommandStart> {
    return new Promise((resolve, reject) => {
      const takeBack = clock.after(START_DEADLINE_MS, () => reject(tooLate()))
      signal.addEventListener("abort", () => {
        takeBack()
        reject(signal.reason)
      })
      this.#take = (frame) => {
        takeBack()
        this.#take = (early) => void this.#early.push(early)
        this.hold()
        try {
          resolve(parse(frame, commandStart))
        } catch (thrown) {
          reject(thrown)
        }
      }
    })
  }

  /** Passes frames to the command. `onWrong` is called with an invalid one. */
  connect(command: Command, onWrong: (thrown: unknown) => void): void {
    this.#take = (frame) => {
      try {
        this.#hand(frame, command)
      } catch (thrown) {
        onWrong(thrown)
      }
    }
    for (const frame of this.#early.splice(0)) this.#take(frame)
    this.#websocket.resume()
  }

  #hand(frame: Frame, command: Command): void {
    if (frame.isBinary) {
      this.#write(frame.data, command)
      return
    }
    const message = parse(frame, commandClientMessage)
    if (message.type === "signal") command.signal(message.signal)
    else command.stdin?.end()
  }

  #write(data: Buffer, { stdin }: Command): void {
    if (data[0] !== COMMAND_CHANNEL.stdin)
      throw new BerthError("input.invalid", "a binary frame must begin with the channel of stdin")
    if (stdin === undefined)
      throw new BerthError("input.invalid", "the command was started without stdin")
    if (data.length > MAX_COMMAND_FRAME_BYTES)
      throw new BerthError("input.too_large", "a frame is larger than is accepted", {
        details: { limitBytes: MAX_COMMAND_FRAME_BYTES },
      })
    const room = stdin.write(data.subarray(1))
    if (room !== undefined) this.#holdUntil(room)
  }

  /** Pauses the connection until there is room. */
  #holdUntil(room: Promise<void>): void {
    if (this.#websocket.isPaused) return
    this.#websocket.pause()
    const pings = setInterval(() => this.#websocket.ping(noop), PING_WHILE_HELD_MS)
    void room.then(() => {
      clearInterval(pings)
      this.#websocket.resume()
    })
    this.#websocket.once("close", () => clearInterval(pings))
  }
}

const noop = (): void => {}

const parse = <Message>({ data, isBinary }: Frame, form: FormOf<Message>): Message =>
  checked(form, isBinary ? undefined : parseJson(data.toString("utf8"), "a text frame"), "message")

/** The start in a connection's query; undefined: a frame will have it. */
export const startIn = (query: URLSearchParams): CommandStart | undefined => {
  const text = query.get("start")
  return text === null ? undefined : checked(commandStart, parseJson(text, "start"), "start")
}

const tooLate = (): BerthError =>
  new BerthError("deadline.exceeded", "the client did not say what to run", {
    details: { deadlineMs: START_DEADLINE_MS },
  })
