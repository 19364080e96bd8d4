/**
 * A program. Runs the bundled supervisor with the given options. Told to on its standard input, it writes the compiled
 * code of the bundles, with the functions that have been called by then. It ends with its input.
 */
import { writeFileSync } from "node:fs"
import { createRequire } from "node:module"
import { dirname, join } from "node:path"

const [main = "", options = ""] = process.argv.slice(2)
const { bundles, load } = createRequire(import.meta.url)(main)
process.stdin.once("data", () => {
  for (const [name, { script }] of bundles)
    writeFileSync(join(dirname(main), `${name}.compiled`), script.createCachedData())
})
// At once: the end of a supervisor is for sandboxes.
process.stdin.once("end", () => process.kill(process.pid, "SIGKILL"))
load("./first.js").run(JSON.parse(options))
