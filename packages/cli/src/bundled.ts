/**
 * The command as it is installed. Its modules were compiled when it was built. Node keeps compiled code apart for each
 * user and adds to it, so the cache is used only for the user who built it: they could not remove files that another
 * user left there.
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
