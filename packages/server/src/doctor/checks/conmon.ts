import type { Check } from "../tools/check.ts"
import { probeTool } from "../tools/probe-tool.ts"

export const conmon: Check = {
  name: "conmon",
  why: "It keeps the exit status and the bounded log of an embedded sandbox, even while no server runs.",
  onlyFor: "embedded",
  probe: probeTool({ tool: "conmon", part: "conmon" }),
}
