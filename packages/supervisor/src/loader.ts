/**
 * The program that starts the supervisor, `main.cjs` of the toolbox. The supervisor comes in two bundles: `first.js`
 * opens the socket, and asks for `rest.js` when that answers. Beside each lies its compiled code, which holds the
 * functions that a boot runs and no others. Where it does not fit this node, node compiles.
 */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Script } from "node:vm"

interface Bundle {
  readonly script: Script
  exports: unknown
}

export const bundles = new Map<string, Bundle>()

/** Loads a bundle once. `name` is its path as the bundles name each other. */
export const load = (name: string): unknown => {
  const known = bundles.get(name)
  if (known !== undefined) return known.exports
  const filename = join(__dirname, name)
  // The bundles are ASCII, which is read the fastest as Latin-1.
  const source = readFileSync(filename, "latin1")
  const script = new Script(source, { filename, ...compiledCode(filename) })
  const bundle: Bundle = { script, exports: {} }
  bundles.set(name, bundle)
  // A bundle asks for the other one, for Node's modules, and for the terminal's native code in the toolbox.
  const find = (id: string) => (id.startsWith("./") ? load(id) : module.require(id))
  script.runInThisContext()(bundle, find)
  return bundle.exports
}

/** A bundle has no compiled code while that is being made. */
const compiledCode = (filename: string): { cachedData?: Buffer } => {
  try {
    return { cachedData: readFileSync(`${filename}.compiled`) }
  } catch {
    return {}
  }
}

if (require.main === module) (load("./first.js") as { start: () => unknown }).start()
