import type { CommandStart } from "@berth/protocol/commands"
import type { WebSocket } from "ws"
import type { FeatureParts } from "../features/parts.ts"
import { ClientInput } from "./client-input.ts"
import type { Commands } from "./commands.ts"
import { Frames } from "./frames.ts"

export interface RunOptions {
  readonly commands: Commands
  readonly parts: FeatureParts
  readonly signal: AbortSignal
}

/**
 * Runs the command that a client names, for as long as the client stays. Never rejects. `named` is the start that came
 * with the connection; without it, the first frame has it.
 */
export const run = async (
  websocket: WebSocket,
  named: CommandStart | undefined,
  { commands, parts: { clock }, signal }: RunOptions,
): Promise<void> => {
  const frames = new Frames(websocket)
  const input = new ClientInput(websocket)
  if (named !== undefined) input.hold()
  try {
    const start = named ?? (await input.start(clock, signal))
    const command = await commands.run(start, {
      hear: {
        stdout: (chunk) => frames.output("stdout", chunk),
        stderr: (chunk) => frames.output("stderr", chunk),
      },
      signal,
    })
    frames.say({ type: "started", id: command.id, pid: command.pid })
    let problem: unknown
    input.connect(command, (wrong) => {
      problem ??= wrong
      void command.end()
    })
    const exit = await command.ended
    if (problem !== undefined) throw problem
    frames.end({ type: "exit", ...exit })
  } catch (thrown) {
    frames.fail(thrown)
  }
}
