import { run } from "./run.ts"
import { processTerminal } from "./terminal.ts"

// Not `process.exit`, which would cut off output that a pipe has not taken yet.
process.exitCode = await run(process.argv.slice(2), processTerminal())
