import { readFileSync } from "node:fs"
import { findPackageJSON } from "node:module"
import { DONE, WRONG_USAGE } from "./exit-status.ts"
import { overview } from "./overview.ts"
import type { Terminal } from "./terminal.ts"

/** Runs one command and returns the exit status. */
export const run = async (args: readonly string[], terminal: Terminal): Promise<number> => {
  switch (args.join(" ")) {
    // These are answered before anything is loaded, as people wait for them.
    case "--help":
    case "-h":
    case "help":
      terminal.out(overview())
      return DONE
    case "--version":
    case "-V":
      terminal.out(`${version()}\n`)
      return DONE
    case "":
      terminal.err(overview())
      return WRONG_USAGE
  }
  const { runCommand } = await import("./run-command.ts")
  return await runCommand(args, terminal)
}

const version = (): string => {
  // The manifest is found from wherever this module was bundled to.
  const manifest = findPackageJSON("..", import.meta.url)
  return JSON.parse(readFileSync(manifest as string, "utf8")).version
}
