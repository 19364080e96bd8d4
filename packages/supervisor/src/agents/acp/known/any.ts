import { basename } from "node:path"
import type { AgentSpec } from "@berth/protocol/workspace"
import type { AcpOptions } from "../acp.ts"

/** Options of an ACP program that the workspace names by its command, and of which Berth knows nothing. */
export const anyAgent = ({
  kind,
  command: [program = "", ...args],
  mode,
  permissions,
}: Extract<AgentSpec, { kind: "acp" }>): AcpOptions => ({
  name: kind,
  title: basename(program),
  command: [program, ...args],
  mode,
  permissions,
})
