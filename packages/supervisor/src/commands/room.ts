import { MAX_COMMAND_OUTPUT_BYTES } from "@berth/protocol/command-limits"
import { KeptOutput } from "./kept-output.ts"

/** Limit of the kept output of all commands, so that the supervisor's memory stays small. */
const ROOM_BYTES = 32 * 1024 * 1024

/** Shares the room among the kept outputs. */
export class Room {
  readonly #outputs = new Set<KeptOutput>()
  #shareBytes = MAX_COMMAND_OUTPUT_BYTES

  take(): KeptOutput {
    const output = new KeptOutput(this.#shareBytes)
    this.#outputs.add(output)
    this.#share()
    return output
  }

  giveBack(output: KeptOutput): void {
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
