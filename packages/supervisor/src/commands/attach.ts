import type { CommandStream } from "@berth/protocol/commands"
import type { WebSocket } from "ws"
import { ClientInput } from "./client-input.ts"
import type { InBackground } from "./commands.ts"
import { Frames } from "./frames.ts"

const MAX_FRAME_BYTES = 64 * 1024

export type Offsets = Readonly<Record<CommandStream, number>>

/** Shows a background command to a client, from the bytes that it has not seen. Never rejects. */
export const attach = async (
  websocket: WebSocket,
  shown: InBackground,
  offsets: Offsets,
  signal: AbortSignal,
): Promise<void> => {
  const frames = new Frames(websocket)
  frames.say({ type: "attached", command: shown.info() })
  new ClientInput(websocket).connect(shown.command, (wrong) => frames.fail(wrong))
  await Promise.all([
    pump("stdout", shown, offsets, frames, signal),
    pump("stderr", shown, offsets, frames, signal),
  ])
  frames.end({ type: "exit", ...(await shown.command.ended) })
}

/** Sends a stream until it has ended and is sent wholly, or until the client has gone. */
const pump = async (
  stream: CommandStream,
  { output }: InBackground,
  offsets: Offsets,
  frames: Frames,
  signal: AbortSignal,
): Promise<void> => {
  const kept = output[stream]
  let at = offsets[stream]
  while (!signal.aborted) {
    if (at < kept.from) {
      frames.say({ type: "dropped", stream, bytes: kept.from - at })
      at = kept.from
    }
    if (at < kept.to) {
      const piece = kept.read(at, MAX_FRAME_BYTES)
      at += piece.length
      await frames.output(stream, piece)
    } else if (kept.isEnded) return
    else await kept.more(signal)
  }
}
