import type { SandboxId } from "@berth/protocol/ids"
import { inspectSandbox } from "./engine/containers.ts"
import { observe } from "./engine/observe.ts"
import type { Parts } from "./parts.ts"

/**
 * The engine's own id of the container with a sandbox's name; undefined if that is somebody else's, or another
 * sandbox's. Used where there is no note, and where the note's id leads to nothing: programs that keep containers up to
 * date recreate them under their names.
 */
export const idByName = async (
  { engine, installation }: Pick<Parts, "engine" | "installation">,
  sandbox: SandboxId,
  signal: AbortSignal,
): Promise<string | undefined> => {
  const found = await inspectSandbox(engine, sandbox, signal)
  const seen = found && observe(found, installation, [])
  return seen?.identity.sandbox === sandbox ? seen.engineId : undefined
}
