import type { DefineCommand } from "../command.ts"
import { defineBuild } from "./toolbox/build.ts"
import { defineLs } from "./toolbox/ls.ts"
import { defineVerify } from "./toolbox/verify.ts"

const HELP = `
A toolbox is one read-only tree that every sandbox has at /opt/berth: Node, the supervisor, agents and
what they need. It is made once for each version, from what npm installed, and needs no network. Claude and
Codex have one each, in which they take the place of OpenCode: npm fetches them when they are first used.

Each of these takes --json, and --data-dir [BERTH_DATA_DIR].

Examples:
  berth toolbox
  berth toolbox build
  berth toolbox build --agent codex
  berth toolbox verify --json`

export const define: DefineCommand = async (command, context) => {
  command
    .description("Lists, builds and verifies what Berth brings into every sandbox.")
    .addHelpText("after", HELP)
  // Without a subcommand, it lists.
  await defineLs(command.command("ls", { isDefault: true }), context)
  await defineBuild(command.command("build"), context)
  await defineVerify(command.command("verify"), context)
}
