import { lstatSync } from "node:fs"
import { join } from "node:path"
import type { Call } from "./context.ts"
import { fingerprint, type Seen } from "./fingerprint.ts"
import type { InputPart, ToolboxInput } from "./inputs/input.ts"
import { hashOf } from "./read-file.ts"
import { walk } from "./walk.ts"

/**
 * A fingerprint of the inputs by their attributes, with everything else that decides about the tree; undefined if a
 * part is missing, or is no directory where one is needed. Far cheaper than a plan of the tree, which also judges the inputs.
 */
export const lookAt = async (
  inputs: readonly ToolboxInput[],
  { signal }: Call,
): Promise<string | undefined> => {
  const seen: Seen[] = []
  try {
    for (const { parts } of inputs)
      for (const part of parts) seen.push(...(await seenOf(part, signal)))
  } catch (thrown) {
    if (ABSENT.has((thrown as NodeJS.ErrnoException).code)) return undefined
    throw thrown
  }
  return hashOf(`${fingerprint(seen)} ${JSON.stringify(inputs)}`).sha256
}

const ABSENT: ReadonlySet<unknown> = new Set(["ENOENT", "ENOTDIR"])

const seenOf = async (part: InputPart, signal: AbortSignal): Promise<Seen[]> => {
  if (part.kind === "file")
    return [{ name: part.from, stats: lstatSync(part.from, { bigint: true }) }]
  if (part.kind !== "tree") return []
  const { from, without } = part
  // A directory changes with every file that comes or goes; what lies in it is seen one by one.
  const below = (await walk(from, signal, without)).filter(({ stats }) => !stats.isDirectory())
  return below.map(({ path, stats }) => ({ name: join(from, path), stats }))
}
