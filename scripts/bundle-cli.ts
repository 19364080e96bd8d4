/**
 * Bundles the command and the server into a few files, and compiles them once: a server loads some nine hundred
 * modules before its first answer, and finding and compiling them takes longer than running them. The compiled code is
 * bound to this node and to these files by name and content; where it does not fit, node compiles.
 */
import { spawnSync } from "node:child_process"
import { existsSync, readdirSync, rmSync, statSync } from "node:fs"
import { basename, join } from "node:path"
import { fileURLToPath } from "node:url"
import { build } from "esbuild"

const CLI = fileURLToPath(new URL("../packages/cli/", import.meta.url))
const SERVER = fileURLToPath(new URL("../packages/server/", import.meta.url))
const LAYERS = fileURLToPath(new URL("../packages/layers/", import.meta.url))
const OUTPUT = join(CLI, "dist/bundle")
const CACHE = join(OUTPUT, "cache")
const COMMAND = "berth.js"

const { metafile } = await build({
  entryPoints: [
    { in: join(CLI, "src/bundled.ts"), out: basename(COMMAND, ".js") },
    // The programs of threads: each is found by this name beside the file that starts it.
    { in: join(LAYERS, "src/trees/walker.ts"), out: "walker" },
    { in: join(SERVER, "src/store/checkpointer.ts"), out: "checkpointer" },
  ],
  outdir: OUTPUT,
  bundle: true,
  platform: "node",
  target: "node24",
  metafile: true,
  // The output is split, so that each command still loads only what it needs.
  format: "esm",
  splitting: true,
  conditions: ["source"],
  // better-sqlite3 looks for native code beside itself. dockerode is loaded on demand and is CommonJS: bundled, its
  // exports would lose their names.
  external: ["better-sqlite3", "dockerode"],
  // CommonJS dependencies call `require` for Node's own modules.
  banner: {
    js: 'import { createRequire as requireFrom } from "node:module"; const require = requireFrom(import.meta.url);',
  },
  // Minified files are faster to read at every start; names stay, for readers of a stack trace.
  minifyWhitespace: true,
  minifySyntax: true,
  legalComments: "none",
  logLevel: "warning",
})
const made = new Set(Object.keys(metafile.outputs).map((path) => basename(path)))

// A running server may still load files of the bundle that it was started from: they stay for a day.
const yesterdayMs = Date.now() - 24 * 60 * 60_000
for (const name of readdirSync(OUTPUT)) {
  const path = join(OUTPUT, name)
  if (!made.has(name) && statSync(path).mtimeMs < yesterdayMs) rmSync(path, { recursive: true })
}
rmSync(CACHE, { recursive: true, force: true })

// All files but the command itself only define things, so they can be loaded.
const LOAD_EACH = "for (const file of process.argv.slice(1)) await import(file)"
const files = [...made].filter((name) => name !== COMMAND).map((name) => join(OUTPUT, name))
const { stderr } = spawnSync(
  ...([process.execPath, ["--input-type=module", "--eval", LOAD_EACH, ...files]] as const),
  { env: { NODE_COMPILE_CACHE: CACHE }, encoding: "utf8" },
)
if (!existsSync(CACHE) || readdirSync(CACHE).length === 0)
  throw new Error(`the command was not compiled: ${stderr}`)
