/**
 * Bundles the supervisor's programs into one file each, and the supervisor itself into two, which it compiles: its
 * start is on every boot's path, and compiling is half of it. The compiled code is bound to this node and to these
 * files by content; where it does not fit, node compiles.
 */
import { chmodSync, rmSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { type BuildOptions, build } from "esbuild"
import { compileSupervisor } from "./supervisor/compile.ts"
import { formsAsData } from "./supervisor/forms.ts"
import { splitSupervisor } from "./supervisor/split.ts"

const SUPERVISOR = fileURLToPath(new URL("../packages/supervisor/", import.meta.url))
const SOURCE = join(SUPERVISOR, "src")
const OUTPUT = join(SUPERVISOR, "dist/bundle")
const PROGRAMS = {
  main: "loader.ts",
  "credential-helper": "credential-helper.ts",
  "git-remote-berth-host": "git-remote-berth-host.ts",
  "web-terminal": "web-terminal/main.ts",
  "files-worker": "files/worker.ts",
  "codex-gate": "agents/acp/known/codex-gate.ts",
}

const OPTIONS = {
  bundle: true,
  platform: "node",
  // CommonJS starts sooner than modules do.
  format: "cjs",
  target: "node24",
  conditions: ["source"],
  external: ["@lydell/node-pty"],
  plugins: [formsAsData],
  // Minified files are faster to read and to check at every start; names stay, for readers of a stack trace.
  minifyWhitespace: true,
  minifySyntax: true,
  legalComments: "none",
  logLevel: "warning",
} satisfies BuildOptions

rmSync(OUTPUT, { recursive: true, force: true })
await build({
  ...OPTIONS,
  entryPoints: Object.entries(PROGRAMS).map(([out, path]) => ({ in: join(SOURCE, path), out })),
  outdir: OUTPUT,
  outExtension: { ".js": ".cjs" },
})
await splitSupervisor(SOURCE, OUTPUT, OPTIONS)
await compileSupervisor(join(OUTPUT, "main.cjs"))

// Codex's adapter starts the first as a program, and git the second.
for (const name of ["codex-gate", "git-remote-berth-host"])
  chmodSync(join(OUTPUT, `${name}.cjs`), 0o755)
