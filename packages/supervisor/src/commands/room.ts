import { MAX_COMMAND_OUTPUT_BYTES } from "@berth/protocol/command-limits"
import { OutputBuffer } from "./output-buffer.ts"

/** Limit of the kept output of all commands, so that the supervisor's memory stays small. */
const ROOM_BYTES = 32 * 1024 * 1024

/** Shares the room among the kept outputs. */
export class Room {
  readonly #outputs = new Set<OutputBuffer>()
  #shareBytes = MAX_COMMAND_OUTPUT_BYTES

  take(): OutputBuffer {
    const output = new OutputBuffer(this.#shareBytes)
    this.#outputs.add(output)
    this.#share()
    return output
  }

  giveBack(output: OutputBuffer): void {
    this.#outputs.delete(output)
    this.#share()
  }

  #share(): void {
    const fair = Math.floor(ROOM_BYTES / Math.max(1, this.#outputs.size))
    const shareBytes = Math.min(MAX_COMMAND_OUTPUT_BYTES, fair)
    if (shareBytes === this.#shareBytes) return
    this.#shareBytes = shareBytes
    for (const output of this.#outputs) output.limit(shareBytes)
  }
}
