import { basename } from "node:path"
import type { AgentSpec } from "@berth/protocol/workspace"
import type { AcpOptions } from "../acp.ts"

/** A program of the sandbox's own, of which nothing is known. */
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
