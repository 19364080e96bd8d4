import type { spawn as Spawn } from "node:child_process"

/** Node's own. Loaded with the first process: at the supervisor's start it would take a tenth of node's own. */
export const spawn: typeof Spawn = (...args: unknown[]) =>
  Reflect.apply(process.getBuiltinModule("node:child_process").spawn, undefined, args)
