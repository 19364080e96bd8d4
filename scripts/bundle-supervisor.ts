/**
 * Bundles the supervisor's programs into one file each, and compiles the supervisor once: its start is on every
 * boot's path, and compiling is half of it. The compiled code is bound to this node and to these files by name
 * and content; where it does not fit, node compiles.
 */
import { spawnSync } from "node:child_process"
import { chmodSync, existsSync, readdirSync, rmSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { SUPERVISOR_FLAGS } from "@berth/protocol/inside"
import { build } from "esbuild"

const SUPERVISOR = fileURLToPath(new URL("../packages/supervisor/", import.meta.url))
const OUTPUT = join(SUPERVISOR, "dist/bundle")
const CACHE = join(OUTPUT, "cache")
const PROGRAMS = {
  main: "main.ts",
  "credential-helper": "credential-helper.ts",
  "git-remote-berth-host": "git-remote-berth-host.ts",
  "web-terminal": "web-terminal/main.ts",
  "files-worker": "files/worker.ts",
  "codex-gate": "agents/acp/known/codex-gate.ts",
}

rmSync(OUTPUT, { recursive: true, force: true })
await build({
  entryPoints: Object.entries(PROGRAMS).map(([out, path]) => ({
    in: join(SUPERVISOR, "src", path),
    out,
  })),
  outdir: OUTPUT,
  outExtension: { ".js": ".cjs" },
  bundle: true,
  platform: "node",
  // CommonJS starts sooner than modules do.
  format: "cjs",
  target: "node24",
  conditions: ["source"],
  external: ["@lydell/node-pty"],
  // Minified files are faster to read and to check at every start; names stay, for readers of a stack trace.
  minifyWhitespace: true,
  minifySyntax: true,
  legalComments: "none",
  logLevel: "warning",
})

// Codex's adapter starts the first as a program, and git the second.
for (const name of ["codex-gate", "git-remote-berth-host"])
  chmodSync(join(OUTPUT, `${name}.cjs`), 0o755)

// Outside of a sandbox the supervisor ends at once, because there is no plan; by then it is loaded.
const { stderr } = spawnSync(process.execPath, [...SUPERVISOR_FLAGS, join(OUTPUT, "main.cjs")], {
  env: { NODE_COMPILE_CACHE: CACHE, NODE_COMPILE_CACHE_PORTABLE: "1" },
  encoding: "utf8",
})
if (!existsSync(CACHE) || readdirSync(CACHE).length === 0)
  throw new Error(`the supervisor was not compiled: ${stderr}`)
