import type { Check } from "../tools/check.ts"
import { probeTool } from "../tools/probe-tool.ts"

export const iproute2: Check = {
  name: "iproute2",
  why: "Gives an embedded sandbox its own network: the link, its address and its route.",
  onlyFor: "embedded",
  probe: probeTool({ tool: "ip", part: "iproute2", versionFlag: "-V" }),
}
