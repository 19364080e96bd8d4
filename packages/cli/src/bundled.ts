/**
 * The command as it is installed. What it loads was compiled when it was built; node keeps compiled code of each user
 * apart and adds to it, so only for who built it: they could not remove what another has left there.
 */
import { statSync } from "node:fs"
import { enableCompileCache } from "node:module"
import { join } from "node:path"

const compiled = join(import.meta.dirname, "cache")
const builder = statSync(compiled, { throwIfNoEntry: false })?.uid
if (builder === process.geteuid?.()) enableCompileCache(compiled)

const [{ run }, { processTerminal }] = await Promise.all([
  import("./run.ts"),
  import("./terminal.ts"),
])
process.exitCode = await run(process.argv.slice(2), processTerminal())
