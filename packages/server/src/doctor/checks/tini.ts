import type { Check } from "../tools/check.ts"
import { probeTool } from "../tools/probe-tool.ts"

export const tini: Check = {
  name: "tini",
  why: "It is the first process of every embedded sandbox: it reaps orphans and forwards signals.",
  probe: probeTool({ tool: "tini", part: "tini" }),
}
