import { readFileSync } from "node:fs"
import { DONE, WRONG_USAGE } from "./exit-status.ts"
import { overview } from "./overview.ts"
import type { Terminal } from "./terminal.ts"

/** Runs one command and gives the exit status. */
export const run = async (args: readonly string[], terminal: Terminal): Promise<number> => {
  switch (args.join(" ")) {
    // Answered before anything is loaded, as people wait for these.
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
  const manifest = readFileSync(new URL("../package.json", import.meta.url), "utf8")
  return JSON.parse(manifest).version
}
