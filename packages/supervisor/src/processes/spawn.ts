import type { spawn as Spawn, SpawnOptions } from "node:child_process"
import { withoutHidden } from "./hidden-descriptors.ts"

/**
 * Node's `spawn`. Its module is loaded with the first process: at the supervisor's start it would take a tenth of
 * node's own.
 */
export const spawn = ((file: string, args: readonly string[], options: SpawnOptions) =>
  process.getBuiltinModule("node:child_process").spawn(file, args, {
    ...options,
    stdio: withoutHidden(options.stdio),
  })) as typeof Spawn
