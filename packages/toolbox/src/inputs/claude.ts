import { adapterInputs } from "./adapter.ts"

/** Claude Code and its adapter. The adapter has the program that it drives in a package for this processor. */
export const claude = adapterInputs({
  agent: "claude",
  program: "@anthropic-ai/claude-agent-sdk",
  main: (arch) => `@anthropic-ai/claude-agent-sdk-linux-${arch}/claude`,
})
