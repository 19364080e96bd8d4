import { BootPlan } from "@berth/protocol/boot-plan"
import { newId } from "@berth/protocol/ids"
import { SHARED, SHARED_TARGET } from "@berth/protocol/shared-directory"
import { ToolboxId } from "@berth/protocol/toolbox"
import { WorkspaceSpec } from "@berth/protocol/workspace"
import { sandboxConfig } from "@berth/server/sandboxes/making/config"
import { benchmark } from "../benchmark.ts"
import { openOwnRoot } from "../fixtures/own-root.ts"
import type { SupervisorStart } from "../fixtures/start-supervisor.ts"

const TOKEN = "a-token-for-the-benchmark-0123456789abcdef"
const TOOLBOX = { id: ToolboxId.parse(`tb-${"0".repeat(40)}`), directory: "/nonexistent" }

/**
 * From the start of the toolbox's supervisor, by a sandbox's own command, to its first answer, compared with the least
 * that its node costs.
 */
export default benchmark({
  what: "start of the shipped supervisor → its socket answers / node -e 0",
  unit: "ms",
  bound: { of: "ratio", atMost: 2 },
  statistic: "median",
  runs: 41,
  prepare: (context) => openOwnRoot(context, "start-supervisor.ts"),
  ours: async (root, signal) =>
    Number(await root.ask(JSON.stringify({ what: "supervisor", ...supervisor() }), signal)),
  other: async (root, signal) =>
    Number(await root.ask(JSON.stringify({ what: "node", ...supervisor() }), signal)),
})

const supervisor = (): SupervisorStart => {
  const workspace = WorkspaceSpec.parse({ slug: "bench", network: { kind: "none" } })
  const { command, environment, boot } = sandboxConfig(workspace, { kind: "host" }, [], TOOLBOX, {
    variables: {},
    certificates: [],
  })
  const plan = BootPlan.parse({ sandbox: newId.sandbox(), mode: "fresh", ...boot })
  return {
    command,
    environment,
    shared: SHARED_TARGET,
    files: { [SHARED.token]: TOKEN, [SHARED.plan]: JSON.stringify(plan) },
    socket: SHARED.socket,
    token: TOKEN,
  }
}
