import type { Agent } from "./agent.ts"

/** An agent in whose sandbox prompts that are for the shell run as commands. */
export const withShell = (agent: Agent, shell: Agent): Agent => ({
  ...agent,
  attach: async (directory, signal) => {
    await shell.attach(directory, signal)
    return await agent.attach(directory, signal)
  },
  prompt: (start, say, signal) =>
    (start.agent === "shell" ? shell : agent).prompt(start, say, signal),
})
