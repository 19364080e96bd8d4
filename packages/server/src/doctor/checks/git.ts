import type { Check } from "../tools/check.ts"
import { probeTool } from "../tools/probe-tool.ts"

export const git: Check = {
  name: "git",
  why: "Repositories are cloned, updated and bundled with it.",
  probe: probeTool({ tool: "git", part: "git" }),
}
