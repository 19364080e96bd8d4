import type { DefineCommand } from "../command.ts"
import { defineLs } from "./layers/ls.ts"
import { defineVerify } from "./layers/verify.ts"

const HELP = `
The files of a workspace are a stack of layers: frozen trees, and a writable top. Layers are shared
between stacks, and removed when nothing stands on them. Files of workspaces on an engine elsewhere are
volumes of that engine, and not listed here.

Each of these takes --json, and --data-dir [BERTH_DATA_DIR].

Examples:
  berth layers
  berth layers verify --json`

export const define: DefineCommand = async (command, context) => {
  command
    .description("Lists the files of workspaces, and repairs what a crash left of them.")
    .addHelpText("after", HELP)
  // Without a word after it, it lists.
  await defineLs(command.command("ls", { isDefault: true }), context)
  await defineVerify(command.command("verify"), context)
}
