import type { SandboxId } from "@berth/protocol/ids"
import { inspectSandbox } from "./containers.ts"
import type { Note } from "./directories.ts"
import { isStackVolume } from "./names.ts"
import { observe } from "./observe.ts"
import type { Parts } from "./parts.ts"

/** What was made for a sandbox: as noted, or what the engine has under its name; nothing if that is someone else's. */
export const noteOf = async (
  { engine, installation, directories }: Pick<Parts, "engine" | "installation" | "directories">,
  sandbox: SandboxId,
  signal: AbortSignal,
): Promise<Note | undefined> => {
  const noted = await directories.read(sandbox)
  if (noted !== undefined) return noted
  const found = await inspectSandbox(engine, sandbox, signal)
  if (found === undefined || observe(found, installation, []) === undefined) return undefined
  const volumes = (found.Mounts ?? []).map(({ Name }) => Name)
  return { engineId: found.Id, volumes: volumes.filter((name) => isStackVolume(name, sandbox)) }
}
