import type { SandboxId } from "@berth/protocol/ids"
import { inspectSandbox } from "./containers.ts"
import { observe } from "./observe.ts"
import type { Parts } from "./parts.ts"

/**
 * The engine's own id of what it has under a sandbox's name; nothing if that is someone else's, or another sandbox.
 * For where there is no note, and where that leads to nothing: programs that keep containers up to date make them
 * anew, under their names.
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
