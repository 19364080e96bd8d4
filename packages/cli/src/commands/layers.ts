import type { DefineCommand } from "../command.ts"
import { defineExport } from "./layers/export.ts"
import { defineImport } from "./layers/import.ts"
import { defineLs } from "./layers/ls.ts"
import { defineVerify } from "./layers/verify.ts"

const HELP = `
The files of a workspace are a stack of layers: frozen trees, and a writable top. Layers are shared
between stacks, and removed when nothing stands on them. Files of workspaces on an engine elsewhere are
volumes of that engine: they are not listed here, and neither exported nor imported.

Each of these takes --json, and --data-dir [BERTH_DATA_DIR].

Examples:
  berth layers
  berth layers verify --json
  berth layers export app app.tar.zst
  berth layers import app-copy app.tar.zst`

export const define: DefineCommand = async (command, context) => {
  command
    .description(
      "Lists the files of workspaces, repairs what a crash left of them, exports and imports them.",
    )
    .addHelpText("after", HELP)
  // Without a subcommand, it lists.
  await defineLs(command.command("ls", { isDefault: true }), context)
  await defineVerify(command.command("verify"), context)
  await defineExport(command.command("export"), context)
  await defineImport(command.command("import"), context)
}
